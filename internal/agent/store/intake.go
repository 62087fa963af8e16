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

// Intake decides what of a hub's frames is believed, and puts it into the
// store. It is the only way by which something ceases to be desired.
type Intake struct {
	// Proven says that the hub's log continues the one that the store knows. Otherwise
	// new objects are accepted, but changes and removals of known ones wait.
	Proven bool
	// Walking says that the frames answer a walk, whose removals are believed only when
	// its wire mark has arrived.
	Walking bool
	// Marker is the hub marker in the hello.
	Marker string

	// dels are the walk's removals, until its wire mark arrives.
	dels []wire.Del
	// Marked says whether a wire mark has arrived, Forward whether its revision was not
	// before the last one's, and Agrees whether the content had its root then.
	Marked, Forward, Agrees bool
}

// Arrival is a well-formed frame.
type Arrival struct {
	wire.Frame
	object        key.Object
	version, kind string
}

// Admit refuses a malformed frame, so that taking what it admits fails only if the store
// does.
func Admit(f wire.Frame) (Arrival, error) {
	a := Arrival{Frame: f}
	var k string
	var err error
	switch {
	case f.Put != nil:
		k = f.Put.Key
		if wire.SumOf(f.Put.Object) != f.Put.Digest {
			return a, fmt.Errorf("put of %q: the object does not have its digest", k)
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

// Touched is one object whose desired entry may have changed, at its place.
type Touched struct {
	Object key.Object
	Moved  string // see key.Located
	Want   *Want  // the entry now; nil: there is none
}

func touched(at key.Located, w *Want) Touched { return Touched{at.Object, at.Moved, w} }

// Apply puts frames into the store, in their order, and returns what they touched and
// the intake after that. It does not change in, so that a transaction can run it again.
// Its errors are the store's.
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
	more, err := t.confirm()
	return append(all, more...), in, err
}

func (in *Intake) frame(t *Tx, f *Arrival, now time.Time) ([]Touched, error) {
	switch {
	case f.Put != nil:
		p := f.Put
		t.meta.Reached = max(t.meta.Reached, p.Revision)
		if in.Proven {
			t.meta.saw(ownership.NewPair(cmp.Or(p.Marker, in.Marker), p.Revision))
		}
		leaf := Source{
			UID: p.UID, Generation: p.Generation, Digest: p.Digest, Policy: p.Policy,
			Log: ownership.NewPair(cmp.Or(p.Marker, in.Marker), p.Revision), Epoch: t.meta.Epoch,
		}
		return in.replace(t, f.object, Want{Kind: WantPut, Leaf: leaf, Version: f.version, ObjectKind: f.kind, Unannounced: p.ReportFirst}, p.Object)
	case f.Hold != nil && f.Hold.Reason == v1alpha1.ReasonUpsynced:
		leaf := Source{UID: f.Hold.UID, Digest: f.Hold.Digest}
		return in.gone(t, f.object, Want{Kind: WantYield, Leaf: leaf})
	case f.Hold != nil:
		leaf := Source{UID: f.Hold.UID, Digest: f.Hold.Digest}
		return in.replace(t, f.object, Want{Kind: WantHold, Leaf: leaf, Reason: f.Hold.Reason, Note: f.Hold.Error}, nil)
	case f.Conflict != nil:
		leaf := Source{UID: f.Conflict.UID, Digest: f.Conflict.Digest}
		return in.replace(t, f.object, Want{Kind: WantConflict, Leaf: leaf, Note: f.Conflict.Owner}, nil)
	case f.Gone != nil:
		leaf := Source{UID: f.Gone.UID, Digest: f.Gone.Digest}
		return in.gone(t, f.object, Want{Kind: WantGone, Leaf: leaf, Version: f.version, ObjectKind: f.kind})
	case f.Del != nil && in.Walking:
		in.dels = append(in.dels, wire.Del{Key: f.Del.Key, UID: f.Del.UID, Cause: wire.Walked})
	case f.Del != nil:
		return in.del(t, f.object, f.Del, now)
	case f.Mark != nil:
		return in.mark(t, f.Mark, now)
	case f.Settings != nil:
		t.meta.hear(*f.Settings, in.Proven)
	}
	return nil, nil // a ping, or a frame of a newer hub
}

// replace sets the desired entry of a key. A hold or a conflict keeps the last
// good object.
func (in *Intake) replace(t *Tx, o key.Object, w Want, object []byte) ([]Touched, error) {
	k := o.Path()
	old, oldObject, err := t.Want(k)
	if err != nil {
		return nil, err
	}
	if old != nil && !in.Proven && old.Sum(k) != w.Sum(k) {
		all, err := in.deferChange(t, o, old, oldObject)
		return all, errors.Join(err, t.reportAgain(k, old.Deferred))
	}
	if w.Kind == WantPut {
		w.Leaf.inherit(old)
		w.Unannounced = w.Unannounced && !t.announced(k, old)
	}
	if old != nil && w.Kind != WantPut {
		w.Unannounced = old.Unannounced
		w.Kept, w.Version, w.ObjectKind = old.Kept, old.Version, old.ObjectKind
		if old.Kind == WantPut {
			kept := old.Leaf
			w.Kept = &kept
		}
		object = bytes.Clone(oldObject) // bbolt may move what is being replaced
	}
	if err := t.setWant(k, old, w, object); err != nil {
		return nil, err
	}
	if err := t.reportAgain(k, old == nil || w.Unannounced); err != nil {
		return nil, err
	}
	if err := dropRecreation(t, t.place(o).Identity.String()); err != nil {
		return nil, err
	}
	if w.Object() != nil { // an entry without an object does not say that a waiting removal is moot
		if err := t.unguard(t.place(o).Identity.String()); err != nil {
			return nil, err
		}
	}
	return []Touched{touched(t.place(o), &w)}, nil
}

// gone sets an entry that says that the object is to be gone, or let go. It is for a user's
// deletion by name, so the removal is not counted.
func (in *Intake) gone(t *Tx, o key.Object, w Want) ([]Touched, error) {
	k := o.Path()
	old, object, err := t.Want(k)
	if err != nil {
		return nil, err
	}
	if old != nil && !in.Proven && old.Sum(k) != w.Sum(k) {
		all, err := in.deferChange(t, o, old, object)
		return all, errors.Join(err, t.reportAgain(k, old.Deferred))
	}
	if old != nil {
		if err := t.rememberLast(o, old); err != nil {
			return nil, err
		}
	}
	if err := dropRecreation(t, t.place(o).Identity.String()); err != nil {
		return nil, err
	}
	if w.Yields() {
		if old != nil {
			w.Version, w.ObjectKind = old.Version, old.ObjectKind
		}
		if err := t.releaseLast(o); err != nil {
			return nil, err
		}
	}
	if err := t.setWant(k, old, w, nil); err != nil {
		return nil, err
	}
	if err := t.reportAgain(k, old == nil); err != nil {
		return nil, err
	}
	return []Touched{touched(t.place(o), &w)}, nil
}

// deferChange notes that the hub would change or remove an entry, which waits until its
// log is proven to continue the one that the store knows.
func (in *Intake) deferChange(t *Tx, o key.Object, old *Want, object []byte) ([]Touched, error) {
	if old.Deferred {
		return nil, nil
	}
	w := *old
	w.Deferred = true
	if err := t.setWant(o.Path(), old, w, bytes.Clone(object)); err != nil {
		return nil, err
	}
	return []Touched{touched(t.place(o), &w)}, nil
}

// del removes the desired entry of a key. Whether the object at the target may be removed
// at once, or waits for a confirmation, is decided here, too.
func (in *Intake) del(t *Tx, o key.Object, d *wire.Del, now time.Time) ([]Touched, error) {
	k := o.Path()
	old, object, err := t.Want(k)
	if err != nil || old == nil {
		return nil, err
	}
	if !in.Proven {
		return in.deferChange(t, o, old, object)
	}
	if err := t.dropWant(k, old); err != nil {
		return nil, err
	}
	if err := errors.Join(t.rememberLast(o, old), t.releaseUnrecorded(o, old)); err != nil {
		return nil, err
	}
	id := t.place(o).Identity.String()
	if err := dropRecreation(t, id); err != nil {
		return nil, err
	}
	rec, err := t.Record(id)
	if err != nil {
		return nil, err
	}
	if err := t.rememberWhy(id, rec, o.Space, d); err != nil {
		return nil, err
	}
	if d.Cause != wire.Deleted && rec != nil && !rec.Source.Policy.Orphan && rec.Space == o.Space &&
		(t.isFormers(rec) || !t.mayRemove(now)) {
		if err := t.guard(id, d.Cause, d.Placement); err != nil {
			return nil, err
		}
	}
	return []Touched{touched(t.place(o), nil)}, nil
}

// mark takes a wire mark: a walk's removals, and the revision, if the content has the
// mark's root.
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
		return all, nil // the dels were deferred
	}
	if in.Agrees = t.meta.Root == m.Root; !in.Agrees {
		return all, nil
	}
	t.meta.Revision, t.meta.Marker, t.meta.Seen, t.meta.Gained = m.Revision, m.Marker, ownership.Pair{}, false
	more, err := in.settle(t)
	return append(all, more...), err
}

// settle ends the wait of deferred changes that are moot, since the content is the hub's.
func (in *Intake) settle(t *Tx) ([]Touched, error) {
	if t.meta.Deferred == 0 {
		return nil, nil
	}
	var all []Touched
	c := t.bucket(desiredBucket).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		w, object, err := decodeWant(t.open(desiredBucket, string(k), v))
		if err != nil {
			return nil, fmt.Errorf("%w of %q", err, k)
		}
		if !w.Deferred {
			continue
		}
		o, err := key.ParsePath(string(k))
		if err != nil {
			return nil, err
		}
		old := w
		w.Deferred = false
		k = bytes.Clone(k) // it is not valid once the bucket changes
		if err := t.setWant(string(k), &old, w, bytes.Clone(object)); err != nil {
			return nil, err
		}
		all = append(all, touched(t.place(o), &w))
		c.Seek(k)
	}
	return all, nil
}
