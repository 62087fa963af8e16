package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tidwall/gjson"
	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Tx is one transaction of the store. Its methods keep the sums and counts in meta equal
// to the content.
type Tx struct {
	values
	// roots are the identities of objects whose record is of another object than before, or
	// is no more, or of which other associated objects are asked for.
	roots map[string]struct{}
}

func newTx(b *bolt.Tx, m *Meta, x *box) *Tx { return &Tx{values: values{tx: b, meta: m, box: x}} }

// place is where the location has an object.
func (t *Tx) place(o key.Object) key.Located { return t.meta.Placing.Locate(o) }

// Want returns the desired entry of a key and the object's bytes, which are
// valid until the transaction ends; nil if there is none.
func (t *Tx) Want(k string) (*Want, []byte, error) {
	b, ok := t.get(desiredBucket, k)
	if !ok {
		return nil, nil, nil
	}
	w, object, err := decodeWant(b)
	if err != nil {
		return nil, nil, fmt.Errorf("%w of %q", err, k)
	}
	return &w, object, nil
}

// HasWant says whether a key has a desired entry.
func (t *Tx) HasWant(k string) bool { return t.has(desiredBucket, k) }

// HasRecord says whether an identity has a record.
func (t *Tx) HasRecord(id string) bool { return t.has(recordBucket, id) }

// HasReport says whether there is a report of a key.
func (t *Tx) HasReport(k string) bool { return t.has(reportBucket, k) }

// Meta is the store's meta in the transaction. The caller must not change it.
func (t *Tx) Meta() *Meta { return t.meta }

// Object returns the object's bytes of a desired entry, which are valid until the transaction
// ends. It returns nil if they do not have the digest: the entry has changed, or is gone. It does
// not decode the entry, which would take a twentieth of a full sync.
func (t *Tx) Object(k string, digest wire.Sum) []byte {
	entry, _ := t.get(desiredBucket, k)
	head, object, _ := bytes.Cut(entry, []byte("\n"))
	field := "leaf.digest"
	if gjson.GetBytes(head, "kind").Str != string(WantPut) {
		field = "kept.digest"
	}
	if gjson.GetBytes(head, field).Str != digest.String() {
		return nil
	}
	return object
}

// setWant replaces the desired entry of a key, old being the present one.
func (t *Tx) setWant(k string, old *Want, w Want, object []byte) error {
	if old != nil {
		t.forgetSum(k, old)
	}
	t.meta.Root = t.meta.Root.Add(w.Sum(k))
	t.meta.Count++
	if w.Deferred {
		t.meta.Deferred++
	}
	b, err := encodeWant(w, object)
	if err != nil {
		return err
	}
	if old.associated() != w.associated() {
		if err := t.noteRoot(k); err != nil {
			return err
		}
	}
	return t.put(desiredBucket, k, b)
}

// dropWant removes the desired entry of a key, old being the present one.
func (t *Tx) dropWant(k string, old *Want) error {
	t.forgetSum(k, old)
	if old.associated() != "" {
		if err := t.noteRoot(k); err != nil {
			return err
		}
	}
	return t.remove(desiredBucket, k)
}

func (t *Tx) forgetSum(k string, old *Want) {
	t.meta.Root = t.meta.Root.Sub(old.Sum(k))
	t.meta.Count--
	if old.Deferred {
		t.meta.Deferred--
	}
}

// Record returns the record of an identity; nil if there is none.
func (t *Tx) Record(id string) (*Record, error) {
	var r Record
	ok, err := t.getJSON(recordBucket, id, &r)
	if !ok {
		return nil, err
	}
	return &r, nil
}

// Keep records an object at the target. If it is desired, that ends the wait of its removal;
// else it has ceased to be while it was written there, and what was decided then still holds:
// the removal waits, or the object is let go.
func (t *Tx) Keep(id string, r *Record) error {
	at, err := key.ParseIdentity(id)
	if err != nil {
		return err
	}
	path := key.Located{Object: key.Object{Space: r.Space, Identity: at}, Moved: r.Moved}.Source().Path()
	entry, desired := t.get(desiredBucket, path)
	kept := *r
	was, err := t.Record(id)
	if err != nil {
		return err
	}
	if was == nil || was.UID != r.UID {
		kept.Recreation = nil
	} else if kept.Recreation != nil {
		kept.Recreation = was.Recreation // it may have been dropped while the object was written
	}
	if desired {
		kept.Source.Policy.Orphan = r.Source.Policy.Orphan || WantKind(gjson.GetBytes(entry, "kind").Str) == WantYield
		if kept.Recreation != nil { // this write is not the one that it waits for
			return t.setRecord(id, &kept)
		}
		return errors.Join(t.setRecord(id, &kept), t.unguard(id))
	}
	if was != nil && was.Space == r.Space {
		kept.Source.Policy.Orphan = r.Source.Policy.Orphan || was.Source.Policy.Orphan
	}
	return t.setRecord(id, &kept)
}

// Claim records a stray, whose removal is counted, or waits for a confirmation. waits
// says that it waited before the store was lost, and must do so again.
func (t *Tx) Claim(id string, r *Record, waits bool, now time.Time) error {
	if err := t.Keep(id, r); err != nil {
		return err
	}
	if !r.Source.Policy.Orphan && (waits && !t.meta.Settings.Purge || !t.mayRemove(now)) {
		return t.guard(id, wire.Walked, "")
	}
	return nil
}

// LetGo forgets the record of an object that is orphaned.
func (t *Tx) LetGo(id string) error { return errors.Join(t.setRecord(id, nil), t.unguard(id)) }

// Forget forgets the record of an object that is gone from the target, and how it was last seen.
func (t *Tx) Forget(id string) error { return errors.Join(t.LetGo(id), t.remove(statusBucket, id)) }

// Live returns what was last seen of an identity at the target; nil if nothing was.
func (t *Tx) Live(id string) (*Live, error) {
	b, ok := t.get(statusBucket, id)
	if !ok {
		return nil, nil
	}
	return decodeLive(b)
}

// SetLive replaces what was last seen of an identity at the target.
func (t *Tx) SetLive(id string, l *Live) error {
	b, err := l.encode()
	if err != nil {
		return err
	}
	return t.put(statusBucket, id, b)
}

// setRecord replaces the record of an identity; nil removes it.
func (t *Tx) setRecord(id string, r *Record) error {
	t.meta.movedOn()
	if r == nil {
		t.noteRootAt(id)
		return t.remove(recordBucket, id)
	}
	if r.Source.Policy.Associated != "" {
		t.noteRootAt(id)
	}
	return t.putJSON(recordBucket, id, r)
}

// Report returns the newest report of a key; nil if there is none.
func (t *Tx) Report(k string) (*wire.Report, error) {
	var r wire.Report
	ok, err := t.getJSON(reportBucket, k, &r)
	if !ok {
		return nil, err
	}
	return &r, nil
}

// SetReport replaces the report of a key, or removes it if r is nil, and marks that as
// unsent.
func (t *Tx) SetReport(k string, r *wire.Report) error {
	if r != nil && r.Completed != "" {
		t.meta.movedOn()
	}
	if r == nil {
		if !t.has(reportBucket, k) {
			return nil
		}
		if err := t.remove(reportBucket, k); err != nil {
			return err
		}
	} else if err := t.putJSON(reportBucket, k, r); err != nil {
		return err
	}
	return t.MarkUnsent(k)
}

// ShowReport is SetReport that does nothing if the report is as it is.
func (t *Tx) ShowReport(line string, r *wire.Report) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if now, ok := t.get(reportBucket, line); ok && bytes.Equal(now, b) {
		return nil
	}
	if err := t.put(reportBucket, line, b); err != nil {
		return err
	}
	return t.MarkUnsent(line)
}

// Recall stores the hub's report of a key, unless the key has one.
func (t *Tx) Recall(k string, r *wire.Report) error {
	if t.HasReport(k) {
		return nil
	}
	return t.putJSON(reportBucket, k, r)
}

// IsUnsent reports whether the report of a key, or its absence, has to be sent to the hub.
func IsUnsent(t *Tx, k string) bool { return t.has(unsentBucket, k) }

// MarkUnsent notes that the report of a key, or its absence, has to be sent to the hub.
func (t *Tx) MarkUnsent(k string) error {
	if !t.has(unsentBucket, k) {
		t.meta.Unsent++
	}
	seq, err := t.bucket(unsentBucket).NextSequence()
	if err != nil {
		return err
	}
	return t.put(unsentBucket, k, binary.BigEndian.AppendUint64(nil, seq))
}

// reportAgain has the report of a key sent again, if there is one: the hub may have refused it
// while the object was not desired.
func (t *Tx) reportAgain(k string, may bool) error {
	if !may || !t.has(reportBucket, k) {
		return nil
	}
	return t.MarkUnsent(k)
}

// Dropped notes that a line is not to be sent again. It returns false if the key has been
// marked unsent again since.
func (t *Tx) Dropped(u Unsent) (bool, error) {
	k := u.Line.Key
	if now, ok := t.get(unsentBucket, k); !ok || !bytes.Equal(now, u.seq) {
		return false, nil
	}
	t.meta.Unsent--
	return true, t.remove(unsentBucket, k)
}

// Sent notes that the hub has a line. It returns an object that waited for that.
func (t *Tx) Sent(u Unsent) (waited *Touched, err error) {
	last, err := t.Dropped(u)
	if report := u.Line.Report; !last || err != nil || report == nil || report.State == wire.Removed || report.State == wire.Orphaned {
		return nil, err
	}
	k := u.Line.Key
	w, object, err := t.Want(k)
	if err != nil || w == nil || !w.Unannounced {
		return nil, err
	}
	o, err := key.ParsePath(k)
	if err != nil {
		return nil, err
	}
	now := *w
	now.Unannounced = false
	it := touched(t.place(o), &now)
	return &it, t.setWant(k, w, now, bytes.Clone(object))
}

// Unannounced says that a key's object waits until the hub has a report of it.
func (t *Tx) Unannounced(k string) (bool, error) {
	w, _, err := t.Want(k)
	return w != nil && w.Unannounced, err
}

// announced says that the hub has a report of a key, whose desired entry was old, and that
// the agent has not removed that since.
func (t *Tx) announced(k string, old *Want) bool {
	return old.Desired() && !old.Unannounced && t.has(reportBucket, k) && !t.has(unsentBucket, k)
}

// rememberWhy keeps in the record of an object, if it is of the space, why it ceases to be
// desired.
func (t *Tx) rememberWhy(id string, rec *Record, s key.Space, d *wire.Del) error {
	if rec == nil || rec.Space != s || d.Cause == wire.Walked && rec.LetGo == nil {
		return nil
	}
	if rec.LetGo = nil; d.Cause != wire.Walked {
		rec.LetGo = &LetGo{d.Cause, d.Placement}
	}
	return t.setRecord(id, rec)
}

// rememberLast is remember for the record of an object that ceases to be desired, if it is
// of the space.
func (t *Tx) rememberLast(o key.Object, was *Want) error {
	id := t.place(o).Identity.String()
	rec, err := t.Record(id)
	if err != nil || rec == nil || rec.Space != o.Space {
		return err
	}
	return t.remember(id, rec, was)
}

// releaseLast keeps in the record of an object of the space that it is orphaned, whatever its
// policy was.
func (t *Tx) releaseLast(o key.Object) error {
	id := t.place(o).Identity.String()
	rec, err := t.Record(id)
	if err != nil || rec == nil || rec.Space != o.Space || rec.Source.Policy.Orphan {
		return err
	}
	rec.Source.Policy.Orphan = true
	return errors.Join(t.setRecord(id, rec), t.unguard(id))
}

// releaseUnrecorded records what ceases to be the location's own without being recorded: it may
// be about to be written at the target.
func (t *Tx) releaseUnrecorded(o key.Object, was *Want) error {
	at := t.place(o)
	id := at.Identity.String()
	if was.Kind != WantYield || was.Version == "" || t.HasRecord(id) {
		return nil
	}
	source := Source{UID: was.Leaf.UID, Policy: wire.Policy{Orphan: true}}
	return t.setRecord(id, &Record{Space: o.Space, Moved: at.Moved, Source: source, Version: was.Version, Kind: was.ObjectKind})
}

// Yields says that the object of a key is the location's own.
func (t *Tx) Yields(k string) bool {
	w, _, err := t.Want(k)
	return err == nil && w.Yields()
}

// remember keeps in the record of an object the last policy that it had before it ceased
// to be desired.
func (t *Tx) remember(id string, rec *Record, was *Want) error {
	o := was.Object()
	if o == nil {
		return nil
	}
	policy := o.Policy
	policy.Release = rec.Source.Policy.Release // what was released, not what would have been
	if policy == rec.Source.Policy {
		return nil
	}
	rec.Source.Policy = policy
	return t.setRecord(id, rec)
}
