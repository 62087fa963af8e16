package store

import (
	"bytes"
	"errors"
	"time"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Tx is one transaction of the store. Its fields are the buckets, and its methods are the changes that
// concern several buckets. All of them keep the hashes and counts in Meta equal to the values.
type Tx struct {
	values
	Desired  Desired
	Records  Records
	Observed Observed
	Reports  Reports
	Removals Removals
	Hub      Hub
	Target   Target
	roots    changedRoots
}

func newTx(b *bolt.Tx, m *Meta, x *box) *Tx {
	v := values{tx: b, meta: m, box: x}
	t := &Tx{values: v, Observed: Observed{v}, Reports: Reports{v}, Hub: Hub{v}, Target: Target{m}}
	t.Desired = Desired{v, &t.roots}
	t.Records = Records{v, &t.roots}
	t.Removals = Removals{v, t.Desired, t.Records}
	return t
}

// Meta returns the store's Meta in the transaction. The caller must not change it.
func (t *Tx) Meta() *Meta { return t.meta }

// PutRecord stores the record of an object that the agent applied at the cluster. If the object is
// desired, its removal no longer waits. Otherwise it ceased to be desired while the agent applied it,
// and the earlier decision stays valid: the removal waits, or the object is orphaned.
func (t *Tx) PutRecord(id string, r *Record) error {
	identity, err := key.ParseIdentity(id)
	if err != nil {
		return err
	}
	path := r.located(identity).Source().Path()
	kind, desired := t.Desired.kind(path)
	kept := *r
	old, err := t.Records.Get(id)
	if err != nil {
		return err
	}
	if old == nil || old.UID != r.UID {
		kept.Recreation = nil
	} else if kept.Recreation != nil {
		kept.Recreation = old.Recreation // it may have been dropped while the object was applied
	}
	if desired {
		kept.Source.Policy.Orphan = r.Source.Policy.Orphan || kind == WantYield
		if kept.Recreation != nil { // the recreation waits for another write than this one
			return t.Records.set(id, &kept)
		}
		return errors.Join(t.Records.set(id, &kept), t.Removals.delete(id))
	}
	if old != nil && old.Space == r.Space {
		kept.Source.Policy.Orphan = r.Source.Policy.Orphan || old.Source.Policy.Orphan
	}
	return t.Records.set(id, &kept)
}

// CountRemoval stores the record of an object that was found at the cluster without a record, and
// counts its removal, which may have to wait for a confirmation. waits is true if the removal waited
// before the store was lost: then it waits again.
func (t *Tx) CountRemoval(id string, r *Record, waits bool, now time.Time) error {
	if err := t.PutRecord(id, r); err != nil {
		return err
	}
	if !r.Source.Policy.Orphan && (waits && !t.meta.Settings.Purge || !t.Removals.count(now)) {
		return t.Removals.add(id, pendingRemoval{Cause: wire.Walked})
	}
	return nil
}

// CountRecreation counts the removal of a desired object that is to be created again for a source, like
// a removal that follows from policy: it may have to wait for a confirmation. r is the object's record.
// desired is the source object of s; its space may be another one than that of the record. waits is
// true if the removal waited before the store was lost: then it waits again.
func (t *Tx) CountRecreation(id string, r *Record, desired key.Object, s Source, waits bool, now time.Time) error {
	w, _, err := t.Desired.Get(desired.Path())
	if err != nil {
		return err
	}
	if w == nil || w.Object() == nil || *RecreationFor(*w.Object()) != *RecreationFor(s) {
		return t.PutRecord(id, r) // the source has changed since
	}
	counted := *r
	counted.Recreation = RecreationFor(s)
	if err := t.Records.set(id, &counted); err != nil {
		return err
	}
	if waits && !t.meta.Settings.Purge || !t.Removals.count(now) {
		return t.Removals.add(id, pendingRemoval{Cause: wire.Unassigned, Recreates: true, Desired: desired.Path()})
	}
	return nil
}

// Orphan removes the record of an object that stays at the cluster.
func (t *Tx) Orphan(id string) error {
	return errors.Join(t.Records.set(id, nil), t.Removals.delete(id))
}

// Forget removes all that the store has of an object that no longer exists at the cluster, but for its
// desired entry and report.
func (t *Tx) Forget(id string) error { return errors.Join(t.Orphan(id), t.Observed.delete(id)) }

// AcknowledgeReport records that the hub has the report of a line. It returns the object of the line
// if that waited for it.
func (t *Tx) AcknowledgeReport(u Unsent) (waited *Touched, err error) {
	last, err := t.Reports.ClearUnsent(u)
	if report := u.Line.Report; !last || err != nil || report == nil || report.State == wire.Removed || report.State == wire.Orphaned {
		return nil, err
	}
	path := u.Line.Key
	old, object, err := t.Desired.Get(path)
	if err != nil || old == nil || !old.Unannounced {
		return nil, err
	}
	o, err := key.ParsePath(path)
	if err != nil {
		return nil, err
	}
	w := *old
	w.Unannounced = false
	announced := newTouched(t.meta.Placing.Locate(o), &w)
	return &announced, t.Desired.set(path, old, w, bytes.Clone(object))
}

// RestoreReport stores the report that the hub has of a line, unless the line has a report. If the report is of an
// object of an aggregated API, that counts for the kind until the kind is listed. It does not count if the
// cluster has served the kind to this agent by a CustomResourceDefinition: the report is older than that.
func (t *Tx) RestoreReport(line string, report *wire.Report) error {
	_, resource, _, ok := key.Split(key.OfPath(line))
	if ok && report.Aggregated && IsPlaced(line) && !t.meta.hasMoved(resource) && !t.Records.containsKind(resource) {
		t.Target.SetAggregated(resource, true)
	}
	return t.Reports.restore(line, report)
}

// ReplaceCluster records that a cluster has replaced another one. Jobs and Pods that ran to completion
// ran at the other one, so they run again. It returns their number.
func (t *Tx) ReplaceCluster(c Cluster) (ended int, err error) {
	ended, err = t.Reports.forgetCompletion()
	t.meta.Cluster = c
	t.meta.countMove() // an older copy of the store is of the other cluster
	return ended, err
}

// Trust ends the caution of a new store, and returns the objects whose removal is confirmed by that.
func (t *Tx) Trust() ([]Touched, error) {
	t.Hub.endFresh()
	return t.Removals.confirm()
}

// Root returns the placed object of an identity, and whether its associated objects are reported. They
// are not if a ServiceAccount applies the object: the agent would read objects that the ServiceAccount
// may not read.
func (t *Tx) Root(id key.Identity) (Root, bool, error) {
	rec, err := t.Records.Get(id.String())
	if err != nil || rec == nil {
		return Root{}, false, err
	}
	source := rec.located(id).Source()
	policy := rec.Source.Policy // the last one, if the object is no longer desired
	w, _, err := t.Desired.Get(source.Path())
	if err != nil {
		return Root{}, false, err
	}
	if w != nil && w.Object() != nil {
		policy = w.Object().Policy
	}
	ok := policy.Associated != "" && policy.ServiceAccount == "" && rec.Source.Policy.ServiceAccount == ""
	return Root{source, id, rec.UID, policy.Associated}, ok, nil
}

// markOrphan records that the object of a record is to be orphaned, whatever its policy was.
func (t *Tx) markOrphan(o key.Object) error {
	id, rec, err := t.Records.getOf(o)
	if err != nil || rec == nil || rec.Source.Policy.Orphan {
		return err
	}
	rec.Source.Policy.Orphan = true
	return errors.Join(t.Records.set(id, rec), t.Removals.delete(id))
}
