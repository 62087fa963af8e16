package store

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestWritesAreAnswered ends the context of a caller while its write is in progress, like a session whose
// credential is renewed. Write still returns the result: the caller has to notify others of the change.
func TestWritesAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t)
		running, stop := context.WithCancel(t.Context())
		defer stop()
		go s.Run(running)
		slow, under := make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		answer := make(chan error, 1)
		go func() {
			answer <- s.Write(ctx, func(*Tx) error {
				close(under)
				<-slow // the disk
				return nil
			})
		}()
		<-under
		cancel()
		synctest.Wait()
		select {
		case err := <-answer:
			t.Errorf("what is written is not known, and the answer is %v", err)
		default:
		}
		close(slow)
		if err := <-answer; err != nil {
			t.Error(err)
		}
		stop()
		synctest.Wait()
	})
}

// TestWritesThatAreNotQueued ends the context of a caller while the queue is full: nothing is written
// later.
func TestWritesThatAreNotQueued(t *testing.T) {
	s := opened(t)
	nothing := func(*Tx) error { return nil }
	for range cap(s.work) {
		if err := s.Submit(t.Context(), &Commit{Do: nothing}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Write(ctx, func(*Tx) error { t.Error("it is written"); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("the answer is %v", err)
	}
	running, stop := context.WithCancel(t.Context())
	stop()
	s.Run(running)
}
