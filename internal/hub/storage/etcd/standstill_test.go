package etcd

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
)

// TestStandstill: while an embedded etcd is defragmented requests wait for its end, or for that of
// their own patience, instead of being answered that they have timed out; it begins when none is
// under way.
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
	if err := l.still.enter(t.Context()); err != nil { // a request under way
		t.Fatal(err)
	}
	begun := make(chan func())
	go func() { begun <- l.still.begin(t.Context()) }()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for l.still.enter(short) == nil { // until it has begun to begin
		l.still.leave()
	}
	select {
	case <-begun:
		t.Fatal("it begins while a request is under way")
	default:
	}
	l.still.leave()
	end := limit.Receive(t, begun, "the standstill begins")
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
	l.still.begin(t.Context())() // when none is under way it need not wait
}
