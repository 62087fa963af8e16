package mapper

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

const (
	// pruneSpan is how far back deletions are counted.
	pruneSpan = 10 * time.Minute
	// pruneFree is how many deletions within the span never wait.
	pruneFree = 50
	// pruneDigest is how much of a sum names removals that wait: enough that no
	// two sets are taken for one another by accident, little enough to be typed.
	pruneDigest = 16
	// maxExamples is how many objects a status names.
	maxExamples = 10
)

// pruneWindow counts deletions that nobody asked for by name, by minute. Their age
// is told by a clock that nobody sets: one that is set must not open the window.
type pruneWindow []pruneMinute

type pruneMinute struct {
	// Unix is when it began by the wall clock, for an agent that starts anew, at is
	// the same by the clock of this one.
	Unix  int64 `json:"unix"`
	at    time.Time
	Count int `json:"count"`
}

// loaded is a window that another process has left. What is yet to come by a wall
// clock that was set back is as good as new.
func (p pruneWindow) loaded(now time.Time) pruneWindow {
	all := slices.Clone(p)
	for i, m := range all {
		all[i].at = now.Add(-max(0, now.Sub(time.Unix(m.Unix, 0))))
	}
	return all
}

// take counts one more deletion and returns true, or returns false when it is
// to wait: when, with those of the last minutes, it would be more than the
// percentage of what the location had then. left is what the location is to
// have after this deletion.
func (p *pruneWindow) take(now time.Time, percent, left int) bool {
	var recent pruneWindow // never in place: a copy of meta may share the array
	sum := 0
	for _, m := range *p {
		if now.Sub(m.at) < pruneSpan {
			recent, sum = append(recent, m), sum+m.Count
		}
	}
	if limit := (left + sum + 1) * percent / 100; sum+1 > max(pruneFree, limit) {
		return false
	}
	if n := len(recent); n > 0 && now.Sub(recent[n-1].at) < time.Minute {
		recent[n-1].Count++
	} else {
		recent = append(recent, pruneMinute{Unix: now.Unix(), at: now, Count: 1})
	}
	*p = recent
	return true
}

// mayRemove counts one more removal that follows from policy, or says that it
// is to wait for a confirmation.
func (t *tx) mayRemove(now time.Time) bool {
	return t.meta.Settings.Purge || t.meta.Prune.take(now, t.meta.Settings.PruneMaxPercent, t.meta.Count)
}

// guardedRemoval is a removal that waits for a confirmation.
type guardedRemoval struct {
	Cause wire.Cause `json:"cause"`
	Space key.Space  `json:"space"`
	// UID is that of the object at the target.
	UID string `json:"uid"`
}

// sum is the removal's part of the digest of all that wait.
func (g guardedRemoval) sum(id string) wire.Sum { return wire.SumOf([]byte(id + "\n" + g.UID)) }

// guardSums describe the removals that wait, by space. They are never changed
// in place: copies of meta share them.
type guardSums map[key.Space]guardSum

type guardSum struct {
	Count int      `json:"count"`
	Sum   wire.Sum `json:"sum"`
}

func (g guardSum) digest() string { return g.Sum.String()[:pruneDigest] }

func (all guardSums) total() (total guardSum) {
	for _, g := range all {
		total.Count, total.Sum = total.Count+g.Count, total.Sum.Add(g.Sum)
	}
	return total
}

func (all guardSums) with(s key.Space, g guardSum) guardSums {
	next := maps.Clone(all)
	if next == nil {
		next = guardSums{}
	}
	next[s] = g
	if g.Count == 0 {
		delete(next, s)
	}
	return next
}

// guarded says whether the removal of an identity waits for a confirmation.
func (t *tx) guarded(id string) bool { return t.has(guardBucket, id) }

// guard makes the removal of a recorded identity wait for a confirmation.
func (t *tx) guard(id string, cause wire.Cause) error {
	rec, err := t.record(id)
	if err != nil || rec == nil || t.guarded(id) {
		return err
	}
	g := guardedRemoval{Cause: cause, Space: rec.Space, UID: rec.UID}
	now := t.meta.Guarded[g.Space]
	t.meta.Guarded = t.meta.Guarded.with(g.Space, guardSum{now.Count + 1, now.Sum.Add(g.sum(id))})
	return t.putJSON(guardBucket, id, g)
}

// unguard ends the waiting of guard: the removal is confirmed, or moot.
func (t *tx) unguard(id string) error {
	var g guardedRemoval
	ok, err := t.getJSON(guardBucket, id, &g)
	if !ok {
		return err
	}
	now := t.meta.Guarded[g.Space]
	t.meta.Guarded = t.meta.Guarded.with(g.Space, guardSum{now.Count - 1, now.Sum.Sub(g.sum(id))})
	return t.remove(guardBucket, id)
}

// confirm lets go what the settings confirm of the removals that wait.
func (t *tx) confirm() ([]touched, error) {
	if len(t.meta.Guarded) == 0 {
		return nil, nil
	}
	total, free := t.meta.Guarded.total().digest(), map[key.Space]bool{}
	for s, g := range t.meta.Guarded {
		free[s] = t.meta.Settings.Purge || slices.ContainsFunc(t.meta.Settings.Confirm, func(c wire.Confirmation) bool {
			return c.Space == "" && (c.Digest == total || c.Digest == g.digest()) || c.Space == string(s) && c.Digest == g.digest()
		})
	}
	var all []touched
	c := t.Bucket(guardBucket).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		var g guardedRemoval
		if err := json.Unmarshal(v, &g); err != nil {
			return nil, fmt.Errorf("decode the guarded removal of %q: %w", k, err)
		}
		if free[g.Space] {
			all = append(all, touched{object: key.Object{Space: g.Space, Identity: parseIdentity(string(bytes.Clone(k)))}})
		}
	}
	for _, o := range all {
		if err := t.unguard(o.object.Identity.String()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// pending describes the removals that wait; nil: there are none.
func (t *tx) pending() (*wire.PruneStatus, error) {
	total := t.meta.Guarded.total()
	if total.Count == 0 {
		return nil, nil
	}
	p := &wire.PruneStatus{Pending: total.Count, Digest: total.digest()}
	for _, s := range slices.Sorted(maps.Keys(t.meta.Guarded)) {
		g := t.meta.Guarded[s]
		p.Spaces = append(p.Spaces, wire.SpacePrune{Space: string(s), Pending: g.Count, Digest: g.digest()})
	}
	c := t.Bucket(guardBucket).Cursor()
	for k, v := c.First(); k != nil && len(p.Objects) < maxExamples; k, v = c.Next() {
		var g guardedRemoval
		if err := json.Unmarshal(v, &g); err != nil {
			return nil, fmt.Errorf("decode the guarded removal of %q: %w", k, err)
		}
		p.Objects = append(p.Objects, string(g.Space)+"/"+string(k))
	}
	return p, nil
}
