package store

import (
	"bytes"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Records is the bucket of the records of applied objects, by identity.
type Records struct {
	values
	roots *changedRoots
}

// Get returns the record of an identity; nil if there is none.
func (r Records) Get(id string) (*Record, error) {
	var rec Record
	ok, err := r.getJSON(recordBucket, id, &rec)
	if !ok {
		return nil, err
	}
	return &rec, nil
}

// Contains reports whether an identity has a record.
func (r Records) Contains(id string) bool { return r.exists(recordBucket, id) }

// containsKind reports whether an object of a resource has a record.
func (r Records) containsKind(resource key.Resource) bool {
	prefix := []byte(key.Identity{Resource: resource}.String())
	k, _ := r.bucket(recordBucket).Cursor().Seek(prefix)
	return bytes.HasPrefix(k, prefix)
}

// set replaces the record of an identity, or removes it if rec is nil.
func (r Records) set(id string, rec *Record) error {
	r.meta.countMove()
	if rec == nil {
		r.roots.add(id)
		return r.remove(recordBucket, id)
	}
	if rec.Source.Policy.Associated != "" {
		r.roots.add(id)
	}
	return r.putJSON(recordBucket, id, rec)
}

// getOf returns the record of an object's identity, if it is a record of the object's space, and the
// identity. The record is nil otherwise.
func (r Records) getOf(o key.Object) (string, *Record, error) {
	id := r.meta.Placing.Locate(o).Identity.String()
	rec, err := r.Get(id)
	if err != nil || rec == nil || rec.Space != o.Space {
		return id, nil, err
	}
	return id, rec, nil
}

// keepPolicy stores, in the record of an object that ceases to be desired, the policy of its last
// desired entry. The fields that were released stay those of the record.
func (r Records) keepPolicy(o key.Object, last *Want) error {
	id, rec, err := r.getOf(o)
	if err != nil || rec == nil || last.Object() == nil {
		return err
	}
	policy := last.Object().Policy
	policy.Release = rec.Source.Policy.Release
	if policy == rec.Source.Policy {
		return nil
	}
	rec.Source.Policy = policy
	return r.set(id, rec)
}

// keepReason stores, in the record of an object that ceases to be desired, the cause and the
// Placement. A comparison does not know them.
func (r Records) keepReason(id string, rec *Record, d *wire.Del) error {
	if d.Cause == wire.Walked && rec.LetGo == nil {
		return nil
	}
	if rec.LetGo = nil; d.Cause != wire.Walked {
		rec.LetGo = &LetGo{d.Cause, d.Placement}
	}
	return r.set(id, rec)
}

// addOrphan creates a record with the orphan policy for an object of the location that ceases to be
// desired without a record: the agent may be about to apply it.
func (r Records) addOrphan(o key.Object, last *Want) error {
	located := r.meta.Placing.Locate(o)
	id := located.Identity.String()
	if last.Kind != WantYield || last.Version == "" || r.Contains(id) {
		return nil
	}
	source := Source{UID: last.Leaf.UID, Policy: wire.Policy{Orphan: true}}
	return r.set(id, &Record{Space: o.Space, Moved: located.Moved, Source: source, Version: last.Version, Kind: last.ObjectKind})
}

// Observed is the bucket of the objects at the cluster as the agent last observed them, by identity.
type Observed struct{ values }

// Get returns the observed object of an identity; nil if there is none.
func (o Observed) Get(id string) (*Live, error) {
	b, ok := o.get(statusBucket, id)
	if !ok {
		return nil, nil
	}
	return decodeLive(b)
}

// Set replaces the observed object of an identity.
func (o Observed) Set(id string, l *Live) error {
	b, err := l.encode()
	if err != nil {
		return err
	}
	return o.put(statusBucket, id, b)
}

func (o Observed) delete(id string) error { return o.remove(statusBucket, id) }
