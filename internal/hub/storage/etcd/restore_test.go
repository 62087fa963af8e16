package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestVerify shows that verify recognizes a log that is not the one from which the table was loaded,
// even if it has the same or a higher revision, and if it was compacted.
func TestVerify(t *testing.T) {
	l := open(t, t.TempDir())
	put := func(k, value string, seen int64) int64 {
		rev, ok, err := l.Put(t.Context(), k, []byte(value), seen)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		return rev
	}
	a := put("a", "1", 0)
	b := put("b", "1", 0)
	bGone, err := l.Write(t.Context(), []Op{{Key: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	c := put("c", "1", 0)
	put("a", "2", a)
	for _, one := range []struct {
		name   string
		anchor anchor
		want   error
	}{
		{"nothing known", anchor{}, nil},
		{"a put that others followed", anchor{key: "a", rev: a, value: []byte("1")}, nil},
		{"a put", anchor{key: "c", rev: c, value: []byte("1")}, nil},
		{"another value", anchor{key: "c", rev: c, value: []byte("2")}, errRestored},
		{"another key", anchor{key: "d", rev: c, value: []byte("1")}, errRestored},
		{"a later put of an older row", anchor{key: "c", rev: c + 1, value: []byte("1")}, errRestored},
		{"a put of what is gone", anchor{key: "b", rev: b, value: []byte("1")}, nil},
		{"a deletion", anchor{key: "b", rev: bGone, deletion: true}, nil},
		{"a deletion of what is there", anchor{key: "c", rev: c + 1, deletion: true}, errRestored},
		{"a later deletion", anchor{key: "b", rev: c, deletion: true}, errRestored},
		{"a deletion of what never was", anchor{key: "d", rev: c, deletion: true}, errRestored},
		{"the future", anchor{key: "c", rev: 1000, value: []byte("1")}, errRestored},
	} {
		if err := (&tailer{log: l}).verify(t.Context(), one.anchor); !errors.Is(err, one.want) {
			t.Errorf("%s: %v, want %v", one.name, err, one.want)
		}
	}
	now := put("e", "1", 0)
	if err := compact(t.Context(), l, now, false, nil, basis{}); err != nil {
		t.Fatal(err)
	}
	if err := (&tailer{log: l}).verify(t.Context(), anchor{key: "c", rev: c, value: []byte("1")}); err != nil {
		t.Errorf("a put in a compacted log: %v", err)
	}
	if err := (&tailer{log: l}).verify(t.Context(), anchor{key: "c", rev: c + 1, value: []byte("2")}); !errors.Is(err, errRestored) {
		t.Errorf("a put that is not in a compacted log: %v", err)
	}
	if err := (&tailer{log: l}).verify(t.Context(), anchor{key: "c", rev: c + 1, deletion: true}); !errors.Is(err, errRestored) {
		t.Errorf("a deletion that is not in a compacted log: %v", err)
	}
	if err := (&tailer{log: l}).verify(t.Context(), anchor{key: "b", rev: bGone, deletion: true}); !errors.Is(err, errUnsure) {
		t.Errorf("a deletion in a compacted log: %v", err)
	}
}

// TestRevisionFallsBack shows that a response is an error only if its revision is below one that was
// known before its request.
func TestRevisionFallsBack(t *testing.T) {
	r := newContinuity()
	generation, known := r.snapshot()
	if err := r.verify(generation, known, 10); err != nil {
		t.Fatal(err)
	}
	generation, known = r.snapshot()
	if err := errors.Join(r.verify(generation, known, 12), r.verify(generation, known, 11)); err != nil {
		t.Fatalf("answers that passed each other: %v", err)
	}
	generation, known = r.snapshot()
	if err := r.verify(generation, known, 11); !errors.Is(err, errRestored) {
		t.Fatalf("a log that went back: %v", err)
	}
	select {
	case <-r.check:
	default:
		t.Error("the tail is not woken")
	}
	r.renew()
	if err := r.verify(generation, known, 3); err != nil {
		t.Fatalf("an answer of the log before: %v", err)
	}
}

// TestLogIsShut shows that writes block while the log is unchecked, and that a write that is based on
// a previous table fails.
func TestLogIsShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newContinuity()
		if err := r.wait(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		r.unlink()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.wait(short, true); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("without a connection: %v", err)
		}
		r.link(0)
		if !r.unlinked {
			t.Fatal("a check from before the connection was lost counts")
		}
		r.unload()
		write, begin := make(chan error, 1), make(chan error, 1)
		go func() { write <- r.wait(t.Context(), true) }()
		go func() { begin <- r.wait(t.Context(), false) }()
		synctest.Wait()
		if len(write) > 0 || len(begin) > 0 {
			t.Fatal("a write does not wait for the check of the log")
		}
		r.renew()
		r.link(1)
		if err := <-begin; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(write) > 0 && !errors.Is(<-write, errAnew) {
			t.Fatal("a write that is based on the previous log is made")
		}
		before := r.Losses()
		r.unload()
		r.Resume(before)
		if !r.unloaded {
			t.Fatal("a load of a table that was lost since allows use of the log")
		}
		r.Resume(r.Losses())
		if err := r.wait(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	})
}

// TestGuards shows that a batch is written only if its guards hold.
func TestGuards(t *testing.T) {
	l := open(t, t.TempDir())
	made, _, err := l.Put(t.Context(), "o/root/orrery.dev/locations/a", []byte(`{}`), 0)
	if err != nil {
		t.Fatal(err)
	}
	ops := []Op{{Key: "r/a/s/placed/core/configmaps/default/one", Value: []byte(`{}`)}}
	for _, c := range []struct {
		guard Guard
		want  error
	}{
		{Guard{"o/root/orrery.dev/locations/a", made}, nil},
		{Guard{"o/root/orrery.dev/locations/a", made + 1}, ErrGuard},
		{Guard{"o/root/orrery.dev/locations/a", 0}, ErrGuard},
		{Guard{"o/root/orrery.dev/locations/b", 0}, nil},
	} {
		if _, err := l.Write(t.Context(), ops, c.guard); !errors.Is(err, c.want) {
			t.Errorf("guard %+v: %v, want %v", c.guard, err, c.want)
		}
	}
}
