package store

import (
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestWhileItIsWritten: what the hub says of an object while that is written at the target is not
// lost when it is recorded: that it is left to the location, whether or not it was recorded
// before, and that its removal waits for a confirmation.
func TestWhileItIsWritten(t *testing.T) {
	const k, id = "s/core/configmaps/n/a", "core/configmaps/n/a"
	yield := wire.Frame{Hold: &wire.Hold{Key: k, UID: "1", Digest: digest("y"), Reason: v1alpha1.ReasonUpsynced, Error: "asked for"}}
	hold := wire.Frame{Hold: &wire.Hold{Key: k, UID: "1", Digest: digest("y"), Reason: v1alpha1.ReasonSuspended, Error: "no"}}
	for name, c := range map[string]struct {
		recorded        bool
		frames          []wire.Frame
		orphan, guarded bool
	}{
		"nothing is said, as it is made":           {false, nil, false, false},
		"it is left, as it is made":                {false, []wire.Frame{yield}, true, false},
		"it is left and deleted, as it is made":    {false, []wire.Frame{yield, del(k, wire.Deleted)}, true, false},
		"it is left and deleted, as it is changed": {true, []wire.Frame{yield, del(k, wire.Unassigned)}, true, false},
		"it is left, and wanted again":             {true, []wire.Frame{yield, put(k, "1", "y")}, false, false},
		"it is deleted, as it is changed":          {true, []wire.Frame{del(k, wire.Deleted)}, false, false},
		"it is unassigned, as it is changed":       {true, []wire.Frame{del(k, wire.Unassigned)}, false, true},
		"it is unassigned, and wanted again":       {true, []wire.Frame{del(k, wire.Unassigned), put(k, "1", "y")}, false, false},
		"it is held":                               {true, []wire.Frame{hold}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := opened(t)
			in := &Intake{Proven: true}
			rec := func() *Record {
				return &Record{Space: "s", UID: "u", Source: Source{UID: "1"}, Version: "v1", Kind: "ConfigMap"}
			}
			var got *Record
			var guarded bool
			for _, err := range []error{
				take(s, in, put(k, "1", "x")),
				write(s, func(x *Tx) error {
					x.meta.Fresh, x.meta.Settings.PruneMaxPercent = false, 0
					for x.Removals.count(now) { // until the next one has to wait
						continue
					}
					if !c.recorded {
						return nil
					}
					return x.PutRecord(id, rec())
				}),
				take(s, in, c.frames...),
				write(s, func(x *Tx) error { return x.PutRecord(id, rec()) }),
				s.View(func(x *Tx) (err error) {
					got, err = x.Records.Get(id)
					guarded = x.Removals.IsPending(id)
					return err
				}),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if got == nil || got.UID != "u" || got.Source.Policy.Orphan != c.orphan || guarded != c.guarded {
				t.Errorf("it is recorded as %+v, its removal waits: %v", got, guarded)
			}
		})
	}
}
