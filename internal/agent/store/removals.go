package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// maxGroups bounds the groups of pending removals, so that a status stays small. Removals of
	// further Placements count for their space only.
	maxGroups = 100
	// MaxExamples is the maximum number of objects in a status.
	MaxExamples = 10
)

// Removals is the bucket of the pending removals, by identity. It keeps the hashes in meta.Guarded
// equal to the pending removals, and it is the removal guard, which decides whether a removal has to
// wait.
type Removals struct {
	values
	desired Desired
	records Records
}

// pendingRemoval is a removal that waits for a confirmation.
type pendingRemoval struct {
	Cause wire.Cause `json:"cause"`
	Space key.Space  `json:"space"`
	// Moved is the Moved of the object's key.Located.
	Moved string `json:"moved,omitempty"`
	// Placement is the one that no longer places the object. It is empty if it is unknown, or if there
	// are too many groups.
	Placement string `json:"placement,omitempty"`
	// UID is the UID of the object at the cluster.
	UID string `json:"uid"`
	// Recreates is true for a desired object that is deleted in order to be created again.
	Recreates bool `json:"recreates,omitempty"`
	// Desired is the path of the source object that is to be created, if Recreates is true.
	Desired string `json:"desired,omitempty"`
	// Once is a random number, so that a confirmation is valid only for this removal, and not for a
	// later one of the same object. It is zero in removals of older agents.
	Once uint64 `json:"once,omitempty"`
}

// sum returns the hash that the removal adds to the hash of its group.
func (p pendingRemoval) sum(id string) wire.Sum {
	b := []byte(id + "\n" + p.UID)
	if p.Once != 0 {
		b = fmt.Appendf(b, "\n%d", p.Once)
	}
	return wire.SumOf(b)
}

// located returns the object with its place at the cluster.
func (p pendingRemoval) located(id key.Identity) key.Located {
	return key.Located{Object: key.Object{Space: p.Space, Identity: id}, Moved: p.Moved}
}

func (p pendingRemoval) group() GuardGroup {
	if p.Placement == "" {
		return GuardGroup(p.Space)
	}
	return GuardGroup(string(p.Space) + "/" + p.Placement)
}

// IsPending reports whether the removal of an identity waits for a confirmation.
func (r Removals) IsPending(id string) bool { return r.exists(guardBucket, id) }

// Status describes the pending removals; nil if there are none.
func (r Removals) Status() (*wire.PruneStatus, error) {
	status := r.meta.Guarded.status()
	if status == nil {
		return nil, nil
	}
	c := r.bucket(guardBucket).Cursor()
	for k, v := c.First(); k != nil && len(status.Objects) < MaxExamples; k, v = c.Next() {
		id, p, err := r.decode(k, v)
		if err != nil {
			return nil, err
		}
		status.Objects = append(status.Objects, p.located(id).Source().Path())
	}
	return status, nil
}

// decode decodes a stored removal. The returned identity does not refer to k.
func (r Removals) decode(k, v []byte) (id key.Identity, p pendingRemoval, err error) {
	if err := json.Unmarshal(r.open(guardBucket, string(k), v), &p); err != nil {
		return id, p, fmt.Errorf("decode the pending removal of %q: %w", k, err)
	}
	id, err = key.ParseIdentity(string(k))
	return id, p, err
}

// count counts one more removal that follows from policy and returns true. It returns false if the
// removal has to wait for a confirmation. While a user purges the location, no removal waits.
func (r Removals) count(now time.Time) bool {
	m := r.meta
	return m.Settings.Purge || m.Prune.take(now, m.Settings.PruneMaxPercent, m.Count, m.Shard)
}

// countOf counts the removal of the object of a record like count. It returns false also for an object
// that the location took over and has not written since: a location that was added again has no
// assigned objects at first.
func (r Removals) countOf(rec *Record, now time.Time) bool {
	if !r.meta.Settings.Purge && r.meta.isFormer(rec) {
		return false
	}
	return r.count(now)
}

// add makes the removal of an identity wait, if the identity has a record and its removal does not
// wait already. The record has the object of p.
func (r Removals) add(id string, p pendingRemoval) error {
	rec, err := r.records.Get(id)
	if err != nil || rec == nil || r.IsPending(id) {
		return err
	}
	p.Space, p.Moved, p.UID, p.Once = rec.Space, rec.Moved, rec.UID, rand.Uint64()
	if _, known := r.meta.Guarded[p.group()]; !known && len(r.meta.Guarded) >= maxGroups {
		p.Placement = ""
	}
	now := r.meta.Guarded[p.group()]
	r.meta.Guarded = r.meta.Guarded.with(p.group(), GuardSum{now.Count + 1, now.Sum.Add(p.sum(id))})
	return r.putJSON(guardBucket, id, p)
}

// delete ends the wait of a removal, because it is confirmed or no longer necessary. It does nothing
// if the removal does not wait.
func (r Removals) delete(id string) error {
	var p pendingRemoval
	ok, err := r.getJSON(guardBucket, id, &p)
	if !ok {
		return err
	}
	now := r.meta.Guarded[p.group()]
	r.meta.Guarded = r.meta.Guarded.with(p.group(), GuardSum{now.Count - 1, now.Sum.Sub(p.sum(id))})
	return r.remove(guardBucket, id)
}

// deleteRecreation ends the wait of the removal of an object that was to be created again, because its
// desired entry has changed. The next such removal counts again.
func (r Removals) deleteRecreation(id string) error {
	var p pendingRemoval
	if ok, err := r.getJSON(guardBucket, id, &p); !ok || err != nil || !p.Recreates {
		return err
	}
	rec, err := r.records.Get(id)
	if err != nil {
		return err
	}
	if rec != nil && rec.Recreation != nil {
		rec.Recreation = nil
		if err := r.records.set(id, rec); err != nil {
			return err
		}
	}
	return r.delete(id)
}

// confirm ends the wait of the removals that the settings confirm, and returns their objects.
func (r Removals) confirm() ([]Touched, error) {
	if len(r.meta.Guarded) == 0 {
		return nil, nil
	}
	confirmed := r.meta.Guarded.confirmed(r.meta.Settings)
	var ids []string
	var all []Touched
	c := r.bucket(guardBucket).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		id, p, err := r.decode(bytes.Clone(k), v)
		if err != nil {
			return nil, err
		}
		if !confirmed[p.group()] {
			continue
		}
		object, err := r.touched(id, p)
		if err != nil {
			return nil, err
		}
		ids, all = append(ids, object.Object.Identity.String()), append(all, object)
	}
	for _, id := range ids {
		if err := r.delete(id); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// touched returns the object of a removal. It has a desired entry if it is to be created again.
func (r Removals) touched(id key.Identity, p pendingRemoval) (Touched, error) {
	if !p.Recreates {
		return newTouched(p.located(id), nil), nil
	}
	desired, err := key.ParsePath(p.Desired)
	if err != nil {
		return Touched{}, err
	}
	w, _, err := r.desired.Get(p.Desired)
	return newTouched(r.meta.Placing.Locate(desired), w), err
}
