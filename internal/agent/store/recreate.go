package store

import (
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// CountRecreation counts the removal of a desired object that is to be made anew for a source,
// like one that follows from policy: if the location does not allow it now, it waits for a
// confirmation. r is the object's record, and desired the source object that s is of: it may be of
// another space than the record. If waits is true, the removal waited before the store was lost, and
// must do so again.
func CountRecreation(t *Tx, id string, r *Record, desired key.Object, s Source, waits bool, now time.Time) error {
	w, _, err := t.Want(desired.Path())
	if err != nil {
		return err
	}
	if w == nil || w.Object() == nil || *RecreationFor(*w.Object()) != *RecreationFor(s) {
		return t.Keep(id, r) // the source is another by now
	}
	counted := *r
	counted.Recreation = RecreationFor(s)
	if err := t.setRecord(id, &counted); err != nil {
		return err
	}
	if waits && !t.meta.Settings.Purge || !t.mayRemove(now) {
		return guardRemoval(t, id, guardedRemoval{Cause: wire.Unassigned, Recreates: true, Desired: desired.Path()})
	}
	return nil
}
