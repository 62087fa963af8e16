package store

import (
	"bytes"
	"fmt"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Desired is the bucket of the desired entries, by the path of the source object. It keeps the
// content hash and the counts in Meta equal to the entries.
type Desired struct {
	values
	roots *changedRoots
}

// Get returns the entry of a path, and the bytes of its object, which are valid until the transaction
// ends. Both are nil if there is no entry.
func (d Desired) Get(path string) (*Want, []byte, error) {
	b, ok := d.get(desiredBucket, path)
	if !ok {
		return nil, nil, nil
	}
	w, object, err := decodeWant(b)
	if err != nil {
		return nil, nil, fmt.Errorf("%w of %q", err, path)
	}
	return &w, object, nil
}

// Contains reports whether a path has an entry.
func (d Desired) Contains(path string) bool { return d.exists(desiredBucket, path) }

// Object returns the bytes of an entry's object, which are valid until the transaction ends. It
// returns nil if the entry is missing, or has another digest by now. It does not decode the entry,
// which would take a twentieth of the time of a full sync.
func (d Desired) Object(path string, digest wire.Sum) []byte {
	entry, _ := d.get(desiredBucket, path)
	head, object, _ := bytes.Cut(entry, []byte("\n"))
	field := "leaf.digest"
	if kindOf(head) != WantPut {
		field = "kept.digest"
	}
	if gjson.GetBytes(head, field).Str != digest.String() {
		return nil
	}
	return object
}

// kind returns the kind of an entry without decoding it, and whether there is an entry.
func (d Desired) kind(path string) (WantKind, bool) {
	entry, ok := d.get(desiredBucket, path)
	return kindOf(entry), ok
}

func kindOf(entry []byte) WantKind { return WantKind(gjson.GetBytes(entry, "kind").Str) }

// IsUnannounced reports whether the object of a path waits until the hub has a report of it.
func (d Desired) IsUnannounced(path string) (bool, error) {
	w, _, err := d.Get(path)
	return w != nil && w.Unannounced, err
}

// Yields reports whether the object of a path belongs to the location.
func (d Desired) Yields(path string) bool {
	w, _, err := d.Get(path)
	return err == nil && w.Yields()
}

// set replaces the entry of a path. old is the present entry; nil if there is none.
func (d Desired) set(path string, old *Want, w Want, object []byte) error {
	if old != nil {
		d.subtractEntry(path, old)
	}
	d.meta.Root = d.meta.Root.Add(w.Sum(path))
	d.meta.Count++
	if w.Deferred {
		d.meta.Deferred++
	}
	b, err := w.encode(object)
	if err != nil {
		return err
	}
	if old.associated() != w.associated() {
		if err := d.markRoot(path); err != nil {
			return err
		}
	}
	return d.put(desiredBucket, path, b)
}

// delete removes the entry of a path. old is the present entry.
func (d Desired) delete(path string, old *Want) error {
	d.subtractEntry(path, old)
	if old.associated() != "" {
		if err := d.markRoot(path); err != nil {
			return err
		}
	}
	return d.remove(desiredBucket, path)
}

// subtractEntry takes an entry out of the content hash and the counts.
func (d Desired) subtractEntry(path string, old *Want) {
	d.meta.Root = d.meta.Root.Sub(old.Sum(path))
	d.meta.Count--
	if old.Deferred {
		d.meta.Deferred--
	}
}

// markRoot records that the object of a path may have become another Root.
func (d Desired) markRoot(path string) error {
	o, err := key.ParsePath(path)
	if err == nil {
		d.roots.add(d.meta.Placing.Locate(o).Identity.String())
	}
	return err
}

// endDeferred clears Deferred in all entries, and returns the changed ones.
func (d Desired) endDeferred() ([]Touched, error) {
	if d.meta.Deferred == 0 {
		return nil, nil
	}
	var all []Touched
	c := d.bucket(desiredBucket).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		w, object, err := decodeWant(d.open(desiredBucket, string(k), v))
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
		if err := d.set(string(k), &old, w, bytes.Clone(object)); err != nil {
			return nil, err
		}
		all = append(all, newTouched(d.meta.Placing.Locate(o), &w))
		c.Seek(k)
	}
	return all, nil
}
