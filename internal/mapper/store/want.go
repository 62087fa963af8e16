package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/wire"
)

// WantKind tells the kinds of entries of the desired content apart.
type WantKind string

// The kinds of entries: an object to apply, one whose rendering fails so that the target
// keeps what it has, and one that another space owns.
const (
	WantPut      WantKind = "put"
	WantHold     WantKind = "hold"
	WantConflict WantKind = "conflict"
)

// Source identifies one rendering of a source object.
type Source struct {
	UID        string      `json:"uid"`
	Generation int64       `json:"gen,omitempty"`
	Digest     wire.Sum    `json:"digest"`
	Policy     wire.Policy `json:"policy,omitzero"`
	// Log is the place in the log at which it was delivered and, in a record, that
	// which stands at the target. Epoch counts the logs accepted before.
	Log   marks.Pair `json:"log,omitzero"`
	Epoch int        `json:"epoch,omitempty"`
}

// Want is one entry of the desired content: what the hub says of one key.
type Want struct {
	Kind WantKind `json:"kind"`
	// Leaf is what the hub said; the content's root is made of it.
	Leaf Source `json:"leaf"`
	// Kept is the rendering that a hold or conflict left standing, if any.
	Kept *Source `json:"kept,omitempty"`
	// Version and ObjectKind are those of the object to apply, if there is one.
	Version    string `json:"version,omitempty"`
	ObjectKind string `json:"objectKind,omitempty"`
	// Note is a hold's error, or the key that wins a conflict.
	Note string `json:"note,omitempty"`
	// Deferred says that a change of this entry waits for proof of lineage.
	Deferred bool `json:"deferred,omitempty"`
}

// Sum is the entry's part of the root.
func (w Want) Sum(k string) wire.Sum {
	return wire.LeafSum(k, w.Leaf.UID, w.Leaf.Digest, w.Leaf.Policy)
}

// Object is the rendering to apply; nil if there is none.
func (w Want) Object() *Source {
	switch w.Kind {
	case WantPut:
		return &w.Leaf
	case WantHold:
		return w.Kept
	default:
		return nil
	}
}

// encodeWant is the stored form: the entry on one line, the object's bytes after it.
func encodeWant(w Want, object []byte) ([]byte, error) {
	head, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode desired entry: %w", err)
	}
	b := make([]byte, 0, len(head)+1+len(object))
	return append(append(append(b, head...), '\n'), object...), nil
}

// decodeWant takes apart the stored form. The object's bytes are b's own.
func decodeWant(b []byte) (Want, []byte, error) {
	head, object, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return Want{}, nil, fmt.Errorf("decode desired entry: no line end in %d bytes", len(b))
	}
	var w Want
	if err := json.Unmarshal(head, &w); err != nil {
		return Want{}, nil, fmt.Errorf("decode desired entry: %w", err)
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

// Record is what the agent knows of an object that it applied at the target.
// There is one per identity: two spaces' objects of one identity take turns.
type Record struct {
	Space  key.Space `json:"space"`
	Source Source    `json:"source"`
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
	Mutated *Mutation `json:"mutated,omitempty"`
}

// Mutation is what admission at the target made of the last apply.
type Mutation struct {
	// Fields are those that are not as they were applied, as a message names them.
	Fields string `json:"fields"`
	// Tries is how often it was applied again to no avail, and Due when it is to be
	// the next time.
	Tries uint8     `json:"tries,omitempty"`
	Due   time.Time `json:"due"`
}

// inherit keeps the pair of an entry that is still about the same object: what has
// been desired all the time since then is so in each log that goes back as far. What
// has come to be protected is so only in a log that says that, too. What is made and
// left alone is not written for what changes of its source.
func (s *Source) inherit(old *Want) {
	if old == nil {
		return
	}
	o := old.Object()
	if o == nil || o.UID != s.UID || o.Policy.CreateOnly != s.Policy.CreateOnly {
		return
	}
	if (o.Digest == s.Digest || s.Policy.CreateOnly) && !protects(s.Policy, o.Policy) {
		s.Log, s.Epoch = o.Log, o.Epoch
	}
}

// protects says that by a policy something at the target is left alone, or left
// there, that was not by the one before.
func protects(p, before wire.Policy) bool {
	return p.CreateOnly && !before.CreateOnly || p.Orphan && !before.Orphan || p.ReportDrift && !before.ReportDrift ||
		before.Recreate && !p.Recreate || p.Release != "" && p.Release != before.Release
}

// Rebase gives an entry from before the last acceptance the pair of that: its own is
// of a log that is not followed any more.
func (w *Want) Rebase(m *Meta) {
	for _, s := range []*Source{&w.Leaf, w.Kept} {
		if s != nil && s.Epoch < m.Epoch {
			s.Log, s.Epoch = m.Accepted, m.Epoch
		}
	}
}
