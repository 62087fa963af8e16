package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// pruneDigest is the length of the digest that names waiting removals: long enough
	// that two sets do not collide by accident, short enough to be typed.
	pruneDigest = 16
	// maxGroups bounds the groups of waiting removals, so that a status stays small.
	// Removals of further Placements are counted for their space only.
	maxGroups = 100
	// MaxExamples is how many objects a status names.
	MaxExamples = 10
)

// guardedRemoval is a removal that waits for a confirmation.
type guardedRemoval struct {
	Cause wire.Cause `json:"cause"`
	Space key.Space  `json:"space"`
	// Moved is that of the object's place, see key.Located.
	Moved string `json:"moved,omitempty"`
	// Placement is the one that no longer places the object; empty: it is not known, or
	// there are too many.
	Placement string `json:"placement,omitempty"`
	// UID is that of the object at the target.
	UID string `json:"uid"`
	// Recreates is set for an object that is desired, and is removed to be made anew.
	Recreates bool `json:"recreates,omitempty"`
	// Desired is the path of the source object that is to be made, with Recreates.
	Desired string `json:"desired,omitempty"`
	// Once is random, so that a confirmation holds for this wait only, and not if the
	// removal of the object waits again later. Zero: an older agent wrote it.
	Once uint64 `json:"once,omitempty"`
}

// sum is the removal's part of the digest of all that wait.
func (g guardedRemoval) sum(id string) wire.Sum {
	b := []byte(id + "\n" + g.UID)
	if g.Once != 0 {
		b = fmt.Appendf(b, "\n%d", g.Once)
	}
	return wire.SumOf(b)
}

// placed is the object that has the identity at the target.
func (g guardedRemoval) placed(id key.Identity) key.Located {
	return key.Located{Object: key.Object{Space: g.Space, Identity: id}, Moved: g.Moved}
}

func (g guardedRemoval) group() GuardGroup {
	if g.Placement == "" {
		return GuardGroup(g.Space)
	}
	return GuardGroup(string(g.Space) + "/" + g.Placement)
}

// GuardGroup names the waiting removals of one Placement, as SPACE/PLACEMENT, or those of
// a space of which no Placement is known, as SPACE.
type GuardGroup string

func (g GuardGroup) names() (space key.Space, placement string) {
	name, placement, _ := strings.Cut(string(g), "/")
	return key.Space(name), placement
}

// GuardSums describe the waiting removals by group. They are never changed in place,
// since copies of Meta share them.
type GuardSums map[GuardGroup]GuardSum

// GuardSum is the number of removals that wait, and their sum.
type GuardSum struct {
	Count int      `json:"count"`
	Sum   wire.Sum `json:"sum"`
}

// Digest is what a confirmation names the removals by.
func (g GuardSum) Digest() string { return g.Sum.String()[:pruneDigest] }

func (g GuardSum) add(o GuardSum) GuardSum { return GuardSum{g.Count + o.Count, g.Sum.Add(o.Sum)} }

// Total adds up all groups.
func (all GuardSums) Total() (total GuardSum) {
	for _, g := range all {
		total = total.add(g)
	}
	return total
}

// bySpace adds up the groups of each space.
func (all GuardSums) bySpace() map[key.Space]GuardSum {
	spaces := map[key.Space]GuardSum{}
	for group, g := range all {
		space, _ := group.names()
		spaces[space] = spaces[space].add(g)
	}
	return spaces
}

func (all GuardSums) with(group GuardGroup, g GuardSum) GuardSums {
	next := maps.Clone(all)
	if next == nil {
		next = GuardSums{}
	}
	next[group] = g
	if g.Count == 0 {
		delete(next, group)
	}
	return next
}

// Guarded says whether the removal of an identity waits for a confirmation.
func (t *Tx) Guarded(id string) bool { return t.has(guardBucket, id) }

// guard makes the removal of a recorded identity wait for a confirmation. placement is
// the Placement that no longer places it, empty if that is not known.
func (t *Tx) guard(id string, cause wire.Cause, placement string) error {
	return guardRemoval(t, id, guardedRemoval{Cause: cause, Placement: placement})
}

// guardRemoval makes the removal of a recorded identity wait. The object of g is taken from the
// record.
func guardRemoval(t *Tx, id string, g guardedRemoval) error {
	rec, err := t.Record(id)
	if err != nil || rec == nil || t.Guarded(id) {
		return err
	}
	g.Space, g.Moved, g.UID, g.Once = rec.Space, rec.Moved, rec.UID, rand.Uint64()
	if _, known := t.meta.Guarded[g.group()]; !known && len(t.meta.Guarded) >= maxGroups {
		g.Placement = ""
	}
	now := t.meta.Guarded[g.group()]
	t.meta.Guarded = t.meta.Guarded.with(g.group(), GuardSum{now.Count + 1, now.Sum.Add(g.sum(id))})
	return t.putJSON(guardBucket, id, g)
}

// unguard ends the waiting of guard: the removal is confirmed, or moot.
func (t *Tx) unguard(id string) error {
	var g guardedRemoval
	ok, err := t.getJSON(guardBucket, id, &g)
	if !ok {
		return err
	}
	now := t.meta.Guarded[g.group()]
	t.meta.Guarded = t.meta.Guarded.with(g.group(), GuardSum{now.Count - 1, now.Sum.Sub(g.sum(id))})
	return t.remove(guardBucket, id)
}

// dropRecreation ends the wait of an object that was to be made anew: its entry is another, or
// none. What is decided next is counted again.
func dropRecreation(t *Tx, id string) error {
	var g guardedRemoval
	if ok, err := t.getJSON(guardBucket, id, &g); !ok || err != nil || !g.Recreates {
		return err
	}
	rec, err := t.Record(id)
	if err != nil {
		return err
	}
	if rec != nil && rec.Recreation != nil {
		rec.Recreation = nil
		if err := t.setRecord(id, rec); err != nil {
			return err
		}
	}
	return t.unguard(id)
}

// free are the groups that the settings confirm. A confirmation names exactly all that
// waits, all of a space, or a group, by digest.
func (all GuardSums) free(s wire.Settings) map[GuardGroup]bool {
	total, spaces, free := all.Total().Digest(), all.bySpace(), map[GuardGroup]bool{}
	for group, g := range all {
		space, _ := group.names()
		free[group] = s.Purge || slices.ContainsFunc(s.Confirm, func(c wire.Confirmation) bool {
			operators := c.Space == ""
			return operators && c.Digest == total ||
				(operators || key.Space(c.Space) == space) && (c.Digest == spaces[space].Digest() || c.Digest == g.Digest())
		})
	}
	return free
}

// confirm ends the wait of the removals that the settings confirm.
func (t *Tx) confirm() ([]Touched, error) {
	if len(t.meta.Guarded) == 0 {
		return nil, nil
	}
	free := t.meta.Guarded.free(t.meta.Settings)
	var all []Touched
	c := t.bucket(guardBucket).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		var g guardedRemoval
		if err := json.Unmarshal(t.open(guardBucket, string(k), v), &g); err != nil {
			return nil, fmt.Errorf("decode the guarded removal of %q: %w", k, err)
		}
		if free[g.group()] {
			id, err := key.ParseIdentity(string(bytes.Clone(k)))
			if err != nil {
				return nil, err
			}
			object := g.placed(id)
			var w *Want // nil unless the object is desired, and is made anew
			if g.Recreates {
				desired, err := key.ParsePath(g.Desired)
				if err != nil {
					return nil, err
				}
				if w, _, err = t.Want(g.Desired); err != nil {
					return nil, err
				}
				object = t.place(desired)
			}
			all = append(all, touched(object, w))
		}
	}
	for _, o := range all {
		if err := t.unguard(o.Object.Identity.String()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Pending describes the removals that wait for a confirmation; nil: there are none.
func (t *Tx) Pending() (*wire.PruneStatus, error) {
	total := t.meta.Guarded.Total()
	if total.Count == 0 {
		return nil, nil
	}
	p := &wire.PruneStatus{Pending: total.Count, Digest: total.Digest()}
	spaces := t.meta.Guarded.bySpace()
	for _, s := range slices.Sorted(maps.Keys(spaces)) {
		p.Spaces = append(p.Spaces, wire.SpacePrune{Space: string(s), Pending: spaces[s].Count, Digest: spaces[s].Digest()})
	}
	for _, group := range slices.Sorted(maps.Keys(t.meta.Guarded)) {
		space, placement := group.names()
		g := t.meta.Guarded[group]
		p.Placements = append(p.Placements, wire.PlacementPrune{Space: string(space), Placement: placement, Pending: g.Count, Digest: g.Digest()})
	}
	c := t.bucket(guardBucket).Cursor()
	for k, v := c.First(); k != nil && len(p.Objects) < MaxExamples; k, v = c.Next() {
		var g guardedRemoval
		if err := json.Unmarshal(t.open(guardBucket, string(k), v), &g); err != nil {
			return nil, fmt.Errorf("decode the guarded removal of %q: %w", k, err)
		}
		id, err := key.ParseIdentity(string(k))
		if err != nil {
			return nil, err
		}
		p.Objects = append(p.Objects, g.placed(id).Source().Path())
	}
	return p, nil
}
