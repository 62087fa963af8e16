package mapper

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/wire"
)

// wantKind tells the kinds of entries of the desired content apart.
type wantKind string

const (
	wantPut      wantKind = "put"
	wantHold     wantKind = "hold"
	wantConflict wantKind = "conflict"
)

// source identifies one rendering of a source object.
type source struct {
	UID        string      `json:"uid"`
	Generation int64       `json:"gen,omitempty"`
	Digest     wire.Sum    `json:"digest"`
	Policy     wire.Policy `json:"policy,omitzero"`
	// Log is the place in the log at which it was delivered and, in a record, that
	// which stands at the target. Epoch counts the logs accepted before.
	Log   marks.Pair `json:"log,omitzero"`
	Epoch int        `json:"epoch,omitempty"`
}

// want is one entry of the desired content: what the hub says of one key.
type want struct {
	Kind wantKind `json:"kind"`
	// Leaf is what the hub said; the content's root is made of it.
	Leaf source `json:"leaf"`
	// Kept is the rendering that a hold or conflict left standing, if any.
	Kept *source `json:"kept,omitempty"`
	// Version and ObjectKind are those of the object to apply, if there is one.
	Version    string `json:"version,omitempty"`
	ObjectKind string `json:"objectKind,omitempty"`
	// Note is a hold's error, or the key that wins a conflict.
	Note string `json:"note,omitempty"`
	// Deferred says that a change of this entry waits for proof of lineage.
	Deferred bool `json:"deferred,omitempty"`
}

// sum is the entry's part of the root.
func (w want) sum(k string) wire.Sum {
	return wire.LeafSum(k, w.Leaf.UID, w.Leaf.Digest, w.Leaf.Policy)
}

// object is the rendering to apply; nil if there is none.
func (w want) object() *source {
	switch w.Kind {
	case wantPut:
		return &w.Leaf
	case wantHold:
		return w.Kept
	default:
		return nil
	}
}

// encodeWant is the stored form: the entry on one line, the object's bytes after it.
func encodeWant(w want, object []byte) ([]byte, error) {
	head, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode desired entry: %w", err)
	}
	b := make([]byte, 0, len(head)+1+len(object))
	return append(append(append(b, head...), '\n'), object...), nil
}

// decodeWant takes apart the stored form. The object's bytes are b's own.
func decodeWant(b []byte) (want, []byte, error) {
	head, object, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return want{}, nil, fmt.Errorf("decode desired entry: no line end in %d bytes", len(b))
	}
	var w want
	if err := json.Unmarshal(head, &w); err != nil {
		return want{}, nil, fmt.Errorf("decode desired entry: %w", err)
	}
	return w, object, nil
}

// typeOf reads version and kind of an object.
func typeOf(object []byte) (version, kind string, err error) {
	t := gjson.GetManyBytes(object, "apiVersion", "kind")
	_, version = key.SplitVersion(t[0].String())
	if version == "" || t[1].String() == "" {
		return "", "", errors.New("decode object: apiVersion or kind is missing")
	}
	return strings.Clone(version), strings.Clone(t[1].String()), nil
}

// record is what the agent knows of an object that it applied at the target.
// There is one per identity: two spaces' objects of one identity take turns.
type record struct {
	Space  key.Space `json:"space"`
	Source source    `json:"source"`
	// UID is that of the object at the target.
	UID string `json:"uid"`
	// As is who the location was to the target when it wrote the object's marks; empty:
	// an older agent did.
	As marks.Owner `json:"as,omitempty"`
	// Generation is that of the object at the target after the last apply.
	Generation int64 `json:"generation,omitempty"`
	// Fields is the hash of our managed fields after the last apply.
	Fields  marks.FieldsHash `json:"fields"`
	Version string           `json:"version"`
	Kind    string           `json:"kind"`
	// Mutated is what admission at the target made of the last apply; nil: nothing.
	Mutated *mutation `json:"mutated,omitempty"`
}
