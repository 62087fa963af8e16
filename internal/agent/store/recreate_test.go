package store

import (
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestRecreationIsCounted: the removal of an object that is made anew waits like any other when
// the location does not allow more. The wait ends when it is confirmed, or when something else
// is desired, and then not as if it were confirmed.
func TestRecreationIsCounted(t *testing.T) {
	const k, id = "s/core/configmaps/n/a", "core/configmaps/n/a"
	source := Source{UID: "1", Digest: put(k, "1", "x").Put.Digest}
	desired := key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "n", Name: "a"}}
	rec := func() *Record {
		return &Record{Space: "s", UID: "u", Source: Source{UID: "1"}, Version: "v1", Kind: "ConfigMap"}
	}
	keep := func(s *Store, in *Intake) error { // a turn that began before the last frame came
		return write(s, func(x *Tx) error {
			r := rec()
			r.Recreation = RecreationFor(source)
			return x.PutRecord(id, r)
		})
	}
	say := func(frames ...wire.Frame) func(*Store, *Intake) error {
		return func(s *Store, in *Intake) error { return take(s, in, frames...) }
	}
	confirm := func(s *Store, in *Intake) error {
		return take(s, in, wire.Frame{Settings: &wire.Settings{Confirm: []wire.Confirmation{{Digest: s.Meta().Guarded.Total().Digest()}}}})
	}
	adopt := func(s *Store, in *Intake) error { // another object is at the target by now
		return write(s, func(x *Tx) error { return x.PutRecord(id, &Record{Space: "s", UID: "u2", Source: source}) })
	}
	for name, c := range map[string]struct {
		then             []func(*Store, *Intake) error
		counted, guarded bool
	}{
		"nothing":                                  {nil, true, true},
		"it is written otherwise":                  {[]func(*Store, *Intake) error{keep}, true, true},
		"it is confirmed":                          {[]func(*Store, *Intake) error{confirm}, true, false},
		"it is confirmed, and written":             {[]func(*Store, *Intake) error{confirm, keep}, true, false},
		"something else is desired":                {[]func(*Store, *Intake) error{say(put(k, "1", "y"))}, false, false},
		"the same is said again":                   {[]func(*Store, *Intake) error{say(put(k, "1", "x"))}, false, false},
		"the same is said while it is written":     {[]func(*Store, *Intake) error{say(put(k, "1", "x")), keep}, false, false},
		"it is deleted":                            {[]func(*Store, *Intake) error{say(del(k, wire.Deleted))}, false, false},
		"it is deleted, and desired again":         {[]func(*Store, *Intake) error{say(del(k, wire.Deleted)), say(put(k, "1", "x"))}, false, false},
		"it is unassigned":                         {[]func(*Store, *Intake) error{say(del(k, wire.Unassigned))}, false, true},
		"it is unassigned, and desired again":      {[]func(*Store, *Intake) error{say(del(k, wire.Unassigned)), say(put(k, "1", "x"))}, false, false},
		"another object is there by now":           {[]func(*Store, *Intake) error{adopt}, false, false},
		"the object is gone":                       {[]func(*Store, *Intake) error{func(s *Store, _ *Intake) error { return write(s, func(x *Tx) error { return x.Forget(id) }) }}, false, false},
		"it is to be gone, as the user deleted it": {[]func(*Store, *Intake) error{say(wire.Frame{Gone: &wire.Gone{Key: k, UID: "1", APIVersion: "v1", Kind: "ConfigMap"}})}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, in := opened(t), &Intake{Proven: true}
			steps := append([]func(*Store, *Intake) error{
				say(put(k, "1", "x")),
				func(s *Store, _ *Intake) error {
					return write(s, func(x *Tx) error {
						x.meta.Fresh, x.meta.Settings.PruneMaxPercent = false, 0
						for x.Removals.count(now) {
							continue
						}
						return x.CountRecreation(id, rec(), desired, source, false, now)
					})
				},
			}, c.then...)
			for _, step := range steps {
				if err := step(s, in); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.View(func(x *Tx) error {
				r, err := x.Records.Get(id)
				if got := r.Recreates(source); got != c.counted || x.Removals.IsPending(id) != c.guarded {
					t.Errorf("counted: %v, it waits: %v, recorded as %+v", got, x.Removals.IsPending(id), r)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestRecreationThatIsAllowed: within what the location allows it is counted and does not wait,
// unless it waited before the store was lost; what is no longer desired is not counted.
func TestRecreationThatIsAllowed(t *testing.T) {
	const k, id = "s/core/configmaps/n/a", "core/configmaps/n/a"
	source := Source{UID: "1", Digest: put(k, "1", "x").Put.Digest}
	desired := key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "n", Name: "a"}}
	for _, c := range []struct {
		former  key.Space
		desired string
		waits   bool
		counted bool
		guarded bool
	}{
		{"s", "x", false, true, false}, {"s", "x", true, true, true}, {"s", "y", false, false, false}, {"s", "", true, false, false},
		{"another", "x", false, true, false}, {"another", "x", true, true, true},
	} {
		s, in := opened(t), &Intake{Proven: true}
		if c.desired != "" {
			if err := take(s, in, put(k, "1", c.desired)); err != nil {
				t.Fatal(err)
			}
		}
		if err := write(s, func(x *Tx) error {
			return x.CountRecreation(id, &Record{Space: c.former, UID: "u"}, desired, source, c.waits, now)
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.View(func(x *Tx) error {
			r, err := x.Records.Get(id)
			n := len(x.Meta().Prune)
			if r.Recreates(source) != c.counted || x.Removals.IsPending(id) != c.guarded || (n > 0) != (c.counted && !c.guarded) {
				t.Errorf("%+v: recorded as %+v, it waits: %v, %d counted", c, r, x.Removals.IsPending(id), n)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
