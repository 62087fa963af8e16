package etcd

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
)

// TestStandstillBegins shows that a standstill blocks new requests at once, and begins when no request
// is under way, or after answersWithin.
func TestStandstillBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s standstill
		for _, leaves := range []bool{true, false} {
			if err := s.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
			since, begun := time.Now(), make(chan func(), 1)
			go func() { begun <- s.begin(t.Context()) }()
			<-time.After(answersWithin - time.Second)
			synctest.Wait()
			if len(begun) > 0 {
				t.Fatal("it begins while a request is under way")
			}
			short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if err := s.enter(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("another request begins: %v", err)
			}
			cancel()
			if leaves {
				s.leave()
			}
			end := <-begun
			if took := time.Since(since); leaves != (took < answersWithin) {
				t.Errorf("the request ends: %t, and it begins after %s", leaves, took)
			}
			end()
			if !leaves {
				s.leave()
			}
		}
	})
}

// TestStandstill shows that requests during a defragmentation wait for its end or for that of their
// own context, and that etcd does not time them out.
func TestStandstill(t *testing.T) {
	l := open(t, t.TempDir())
	k := func(n int) string {
		return key.Object{Space: "s", Identity: key.Identity{Resource: key.ConfigMaps, Namespace: "n", Name: fmt.Sprint(n)}}.Key()
	}
	put := func(ctx context.Context, n int) error {
		_, _, err := l.Put(ctx, k(n), []byte(`{}`), 0)
		return err
	}
	if err := put(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	end := l.still.begin(t.Context())
	impatient, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := put(impatient, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that does not wait is answered %v", err)
	}
	answers := make(chan error)
	for n := range 5 {
		go func() { answers <- put(t.Context(), 2+n) }()
	}
	select {
	case err := <-answers:
		t.Errorf("one is answered meanwhile: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	end()
	for range 5 {
		if err := limit.Receive(t, answers, "a request is answered after the standstill"); err != nil {
			t.Errorf("after it one is answered %v", err)
		}
	}
	if _, ok, err := l.Put(t.Context(), k(1), []byte(`{}`), 0); !ok || err != nil {
		t.Errorf("what did not wait was written: %v %v", ok, err)
	}
	l.still.begin(t.Context())() // it does not wait if no request is under way
}
