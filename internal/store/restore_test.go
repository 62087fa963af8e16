package store

import (
	"context"
	"errors"
	"testing"

	"orrery.dev/orrery/internal/table"
)

// TestRestoredLogIsNoticed shows that a log that is behind what the table has
// seen is not taken for its continuation.
func TestRestoredLogIsNoticed(t *testing.T) {
	l := open(t, t.TempDir())
	ahead := table.New(table.Config{WindowSteps: 10, WindowBytes: 1 << 20})
	ahead.Reset(1000, nil)
	if err := l.progress(t.Context(), ahead); err == nil || errors.Is(err, context.Canceled) {
		t.Fatalf("a log at a lower revision than the table: %v", err)
	}
}

// TestGuards shows that a batch is written only while what it depends on is there.
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
