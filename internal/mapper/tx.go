package mapper

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/wire"
)

// tx is one transaction of the store. The functions that change desired
// content keep meta.Root and meta.Count equal to it.
type tx struct {
	*bolt.Tx
	meta *meta
}

// get returns the value of a key, which is valid until the transaction ends, and
// whether there is one. It is the only way by which values are looked up: of one that
// is empty and was put in this transaction bbolt's Get returns nil, as of none.
func (t *tx) get(bucket []byte, k string) (v []byte, ok bool) {
	found, v := t.Bucket(bucket).Cursor().Seek([]byte(k))
	if found == nil || string(found) != k {
		return nil, false
	}
	return v, true
}

// has says whether a key has a value.
func (t *tx) has(bucket []byte, k string) bool {
	_, ok := t.get(bucket, k)
	return ok
}

func (t *tx) putJSON(bucket []byte, k string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", bucket, err)
	}
	return t.put(bucket, k, b)
}

// put sets a value. With remove it is the only way by which values change: together
// they keep meta.Written equal to the sum of what is there.
func (t *tx) put(bucket []byte, k string, v []byte) error {
	t.unwrite(bucket, k)
	t.meta.Written = t.meta.Written.Add(writtenSum(bucket, k, v))
	return t.Bucket(bucket).Put([]byte(k), v)
}

// remove deletes a value, if there is one.
func (t *tx) remove(bucket []byte, k string) error {
	t.unwrite(bucket, k)
	return t.Bucket(bucket).Delete([]byte(k))
}

func (t *tx) unwrite(bucket []byte, k string) {
	if old, ok := t.get(bucket, k); ok {
		t.meta.Written = t.meta.Written.Sub(writtenSum(bucket, k, old))
	}
}

// writtenSum is a value's part of meta.Written.
func writtenSum(bucket []byte, k string, v []byte) wire.Sum {
	b := make([]byte, 0, len(bucket)+len(k)+len(v)+binary.MaxVarintLen64+1)
	b = append(append(b, bucket...), '/')
	b = append(binary.AppendUvarint(b, uint64(len(k))), k...)
	return wire.SumOf(append(b, v...))
}

// getJSON reads a value into v; false if there is none.
func (t *tx) getJSON(bucket []byte, k string, v any) (bool, error) {
	b, ok := t.get(bucket, k)
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("decode %s of %q: %w", bucket, k, err)
	}
	return true, nil
}

// want returns the desired entry of a key and the object's bytes, which are
// valid until the transaction ends; nil if there is none.
func (t *tx) want(k string) (*want, []byte, error) {
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

// object returns the object's bytes of a desired entry, without decoding the
// entry, which is a twentieth of a full sync. They are valid until the transaction
// ends.
func (t *tx) object(k string) []byte {
	entry, _ := t.get(desiredBucket, k)
	_, object, _ := bytes.Cut(entry, []byte("\n"))
	return object
}

// setWant replaces the desired entry of a key, old being the present one.
func (t *tx) setWant(k string, old *want, w want, object []byte) error {
	if old != nil {
		t.forgetSum(k, old)
	}
	t.meta.Root = t.meta.Root.Add(w.sum(k))
	t.meta.Count++
	if w.Deferred {
		t.meta.Deferred++
	}
	b, err := encodeWant(w, object)
	if err != nil {
		return err
	}
	return t.put(desiredBucket, k, b)
}

// dropWant removes the desired entry of a key, old being the present one.
func (t *tx) dropWant(k string, old *want) error {
	t.forgetSum(k, old)
	return t.remove(desiredBucket, k)
}

func (t *tx) forgetSum(k string, old *want) {
	t.meta.Root = t.meta.Root.Sub(old.sum(k))
	t.meta.Count--
	if old.Deferred {
		t.meta.Deferred--
	}
}

// record returns what is recorded of an identity; nil if nothing is.
func (t *tx) record(id string) (*record, error) {
	var r record
	ok, err := t.getJSON(recordBucket, id, &r)
	if !ok {
		return nil, err
	}
	return &r, nil
}

// setRecord replaces what is recorded of an identity; nil removes it.
func (t *tx) setRecord(id string, r *record) error {
	if r == nil {
		return t.remove(recordBucket, id)
	}
	return t.putJSON(recordBucket, id, r)
}

// report returns the newest report of a key; nil if there is none.
func (t *tx) report(k string) (*wire.Report, error) {
	var r wire.Report
	ok, err := t.getJSON(reportBucket, k, &r)
	if !ok {
		return nil, err
	}
	return &r, nil
}

// setReport replaces the report of a key, or removes it, and notes that the hub
// does not have it yet.
func (t *tx) setReport(k string, r *wire.Report) error {
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
	return t.markUnsent(k)
}

// markUnsent notes that the hub is to be told the report of a key, or its absence.
func (t *tx) markUnsent(k string) error {
	if !t.has(unsentBucket, k) {
		t.meta.Unsent++
	}
	seq, err := t.Bucket(unsentBucket).NextSequence()
	if err != nil {
		return err
	}
	return t.put(unsentBucket, k, binary.BigEndian.AppendUint64(nil, seq))
}

// sent notes that the hub has the report of a key as it was when it had that
// number; there may be something newer.
func (t *tx) sent(k string, seq []byte) error {
	if now, ok := t.get(unsentBucket, k); !ok || !bytes.Equal(now, seq) {
		return nil
	}
	t.meta.Unsent--
	return t.remove(unsentBucket, k)
}
