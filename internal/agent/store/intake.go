package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Intake decides which frames of a hub the agent believes, and stores them. Only an Intake makes
// objects cease to be desired.
type Intake struct {
	// Proven is true if the hub's log continues the log that the store knows. Otherwise the store
	// accepts new objects, but changes and removals of known objects wait.
	Proven bool
	// Walking is true if the frames are the response to a comparison: the agent believes its removals
	// only when its bookmark has arrived.
	Walking bool
	// Marker is the hub marker in the hello.
	Marker string

	// dels are the removals of a comparison whose bookmark has not arrived.
	dels []wire.Del
	// Marked is true if a bookmark has arrived. Forward is true if its revision was not before that of
	// the last one, and Agrees if the store had the bookmark's content hash then.
	Marked, Forward, Agrees bool
}

// Arrival is a valid frame.
type Arrival struct {
	wire.Frame
	object        key.Object
	version, kind string
}

// Admit validates a frame. Applying an Arrival fails only if the store fails.
func Admit(f wire.Frame) (Arrival, error) {
	a := Arrival{Frame: f}
	var k string
	var err error
	switch {
	case f.Put != nil:
		k = f.Put.Key
		if wire.SumOf(f.Put.Object) != f.Put.Digest {
			return a, fmt.Errorf("put of %q: the object does not match its digest", k)
		}
		if a.version, a.kind, err = typeOf(f.Put.Object); err != nil {
			return a, fmt.Errorf("put of %q: %w", k, err)
		}
	case f.Hold != nil:
		k = f.Hold.Key
	case f.Conflict != nil:
		k = f.Conflict.Key
	case f.Gone != nil:
		k = f.Gone.Key
		if _, a.version = key.SplitVersion(f.Gone.APIVersion); a.version == "" || f.Gone.Kind == "" {
			return a, fmt.Errorf("gone of %q: apiVersion or kind is missing", k)
		}
		a.kind = f.Gone.Kind
	case f.Del != nil:
		k = f.Del.Key
	default:
		return a, nil
	}
	if a.object, err = key.ParsePath(k); err != nil {
		return a, err
	}
	return a, a.object.Identity.Validate()
}

// Apply stores frames in their order. It returns the objects that they concern, and the Intake after
// the frames. It does not change in, so that a transaction can repeat it. Its errors are those of the
// store.
func (in Intake) Apply(t *Tx, frames []Arrival, now time.Time) ([]Touched, Intake, error) {
	in.dels = slices.Clone(in.dels)
	var all []Touched
	for i := range frames {
		more, err := in.frame(t, &frames[i], now)
		if err != nil {
			return nil, in, err
		}
		all = append(all, more...)
	}
	more, err := t.Removals.confirm()
	return append(all, more...), in, err
}

func (in *Intake) frame(t *Tx, f *Arrival, now time.Time) ([]Touched, error) {
	switch {
	case f.Put != nil:
		p := f.Put
		t.meta.Reached = max(t.meta.Reached, p.Revision)
		position := ownership.NewPair(cmp.Or(p.Marker, in.Marker), p.Revision)
		if in.Proven {
			t.meta.advanceSeen(position)
		}
		leaf := Source{UID: p.UID, Generation: p.Generation, Digest: p.Digest, Policy: p.Policy, Log: position, Epoch: t.meta.Epoch}
		return in.replace(t, f.object, Want{Kind: WantPut, Leaf: leaf, Version: f.version, ObjectKind: f.kind, Unannounced: p.ReportFirst}, p.Object)
	case f.Hold != nil && f.Hold.Reason == v1alpha1.ReasonUpsynced:
		leaf := Source{UID: f.Hold.UID, Digest: f.Hold.Digest}
		return in.end(t, f.object, Want{Kind: WantYield, Leaf: leaf})
	case f.Hold != nil:
		leaf := Source{UID: f.Hold.UID, Digest: f.Hold.Digest}
		return in.replace(t, f.object, Want{Kind: WantHold, Leaf: leaf, Reason: f.Hold.Reason, Detail: f.Hold.Error}, nil)
	case f.Conflict != nil:
		leaf := Source{UID: f.Conflict.UID, Digest: f.Conflict.Digest}
		return in.replace(t, f.object, Want{Kind: WantConflict, Leaf: leaf, Detail: f.Conflict.Owner}, nil)
	case f.Gone != nil:
		leaf := Source{UID: f.Gone.UID, Digest: f.Gone.Digest}
		return in.end(t, f.object, Want{Kind: WantGone, Leaf: leaf, Version: f.version, ObjectKind: f.kind})
	case f.Del != nil && in.Walking:
		in.dels = append(in.dels, wire.Del{Key: f.Del.Key, UID: f.Del.UID, Cause: wire.Walked})
	case f.Del != nil:
		return in.del(t, f.object, f.Del, now)
	case f.Mark != nil:
		return in.mark(t, f.Mark, now)
	case f.Settings != nil:
		t.meta.applySettings(*f.Settings, in.Proven)
	}
	return nil, nil // a ping, or a frame of a newer hub
}

// replace sets the desired entry of an object that is to exist at the cluster. A hold or a conflict
// keeps the last rendering.
func (in *Intake) replace(t *Tx, o key.Object, w Want, object []byte) ([]Touched, error) {
	path, located := o.Path(), t.meta.Placing.Locate(o)
	old, oldObject, err := t.Desired.Get(path)
	if err != nil {
		return nil, err
	}
	if in.defers(path, old, w) {
		return in.deferReplacement(t, o, old, oldObject)
	}
	if w.Kind == WantPut {
		w.Leaf.inherit(old)
		isAnnounced := old.Desired() && !old.Unannounced && t.Reports.IsAcknowledged(path)
		w.Unannounced = w.Unannounced && !isAnnounced
	}
	if old != nil && w.Kind != WantPut {
		w.Unannounced = old.Unannounced
		w.Kept, w.Version, w.ObjectKind = old.Kept, old.Version, old.ObjectKind
		if old.Kind == WantPut {
			kept := old.Leaf
			w.Kept = &kept
		}
		object = bytes.Clone(oldObject) // bbolt may move the replaced value
	}
	if err := t.Desired.set(path, old, w, object); err != nil {
		return nil, err
	}
	if old == nil || w.Unannounced {
		if err := t.Reports.sendAgain(path); err != nil {
			return nil, err
		}
	}
	id := located.Identity.String()
	if err := t.Removals.deleteRecreation(id); err != nil {
		return nil, err
	}
	if w.Object() != nil { // without an object, a pending removal may still be necessary
		if err := t.Removals.delete(id); err != nil {
			return nil, err
		}
	}
	return []Touched{newTouched(located, &w)}, nil
}

// end sets the desired entry of an object that is to be removed, or orphaned. A user has deleted the
// object by name, so the removal guard does not count the removal.
func (in *Intake) end(t *Tx, o key.Object, w Want) ([]Touched, error) {
	path, located := o.Path(), t.meta.Placing.Locate(o)
	old, object, err := t.Desired.Get(path)
	if err != nil {
		return nil, err
	}
	if in.defers(path, old, w) {
		return in.deferReplacement(t, o, old, object)
	}
	if old != nil {
		if err := t.Records.keepPolicy(o, old); err != nil {
			return nil, err
		}
	}
	if err := t.Removals.deleteRecreation(located.Identity.String()); err != nil {
		return nil, err
	}
	if w.Yields() {
		if old != nil {
			w.Version, w.ObjectKind = old.Version, old.ObjectKind
		}
		if err := t.markOrphan(o); err != nil {
			return nil, err
		}
	}
	if err := t.Desired.set(path, old, w, nil); err != nil {
		return nil, err
	}
	if old == nil {
		if err := t.Reports.sendAgain(path); err != nil {
			return nil, err
		}
	}
	return []Touched{newTouched(located, &w)}, nil
}

// defers reports whether the replacement of an entry has to wait until the hub's log is proven.
func (in *Intake) defers(path string, old *Want, w Want) bool {
	return old != nil && !in.Proven && old.Sum(path) != w.Sum(path)
}

// deferReplacement is deferChange for an entry that the hub would replace. The second time, it also
// sends the report of the object again.
func (in *Intake) deferReplacement(t *Tx, o key.Object, old *Want, object []byte) ([]Touched, error) {
	all, err := in.deferChange(t, o, old, object)
	if err == nil && old.Deferred {
		err = t.Reports.sendAgain(o.Path())
	}
	return all, err
}

// deferChange records that the hub would change or remove an entry. The change waits until the hub's
// log is proven to continue the log that the store knows.
func (in *Intake) deferChange(t *Tx, o key.Object, old *Want, object []byte) ([]Touched, error) {
	if old.Deferred {
		return nil, nil
	}
	w := *old
	w.Deferred = true
	if err := t.Desired.set(o.Path(), old, w, bytes.Clone(object)); err != nil {
		return nil, err
	}
	return []Touched{newTouched(t.meta.Placing.Locate(o), &w)}, nil
}

// del removes the desired entry of an object. It also decides whether the object at the cluster may be
// removed now, or waits for a confirmation.
func (in *Intake) del(t *Tx, o key.Object, d *wire.Del, now time.Time) ([]Touched, error) {
	path, located := o.Path(), t.meta.Placing.Locate(o)
	old, object, err := t.Desired.Get(path)
	if err != nil || old == nil {
		return nil, err
	}
	if !in.Proven {
		return in.deferChange(t, o, old, object)
	}
	if err := t.Desired.delete(path, old); err != nil {
		return nil, err
	}
	if err := errors.Join(t.Records.keepPolicy(o, old), t.Records.addOrphan(o, old)); err != nil {
		return nil, err
	}
	if err := t.Removals.deleteRecreation(located.Identity.String()); err != nil {
		return nil, err
	}
	id, rec, err := t.Records.getOf(o)
	if err != nil {
		return nil, err
	}
	if rec != nil {
		if err := t.Records.keepReason(id, rec, d); err != nil {
			return nil, err
		}
		if d.Cause != wire.Deleted && !rec.Source.Policy.Orphan && !t.Removals.countOf(rec, now) {
			if err := t.Removals.add(id, pendingRemoval{Cause: d.Cause, Placement: d.Placement}); err != nil {
				return nil, err
			}
		}
	}
	return []Touched{newTouched(located, nil)}, nil
}

// mark takes a bookmark: it removes the objects that a comparison did not find, and takes over the
// revision if the store has the bookmark's content hash.
func (in *Intake) mark(t *Tx, m *wire.Mark, now time.Time) ([]Touched, error) {
	in.Marked, in.Forward = true, m.Revision >= t.meta.Revision
	if !in.Forward && in.Proven {
		return nil, nil
	}
	var all []Touched
	for _, d := range in.dels {
		o, err := key.ParsePath(d.Key)
		if err != nil {
			return nil, err
		}
		more, err := in.del(t, o, &d, now)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	in.dels = nil
	if !in.Proven {
		return all, nil // the removals were deferred
	}
	if in.Agrees = t.meta.Root == m.Root; !in.Agrees {
		return all, nil
	}
	t.meta.Revision, t.meta.Marker, t.meta.Seen, t.meta.Gained = m.Revision, m.Marker, ownership.Pair{}, false
	more, err := t.Desired.endDeferred() // the store agrees with the hub, so these changes are no longer necessary
	return append(all, more...), err
}
