package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// WantKind is the kind of an entry of the desired content.
type WantKind string

// The kinds of entries: an object to apply, one that is held so that the target keeps what
// it has, and one that another space owns.
const (
	WantPut      WantKind = "put"
	WantHold     WantKind = "hold"
	WantConflict WantKind = "conflict"
	// WantGone: the object is to be gone, and the hub to be told that it is.
	WantGone WantKind = "gone"
	// WantYield: the object is the location's own; what was placed of it is let go.
	WantYield WantKind = "yield"
)

// Source identifies one rendering of a source object.
type Source struct {
	UID        string      `json:"uid"`
	Generation int64       `json:"gen,omitempty"`
	Digest     wire.Sum    `json:"digest"`
	Policy     wire.Policy `json:"policy,omitzero"`
	// Log is the place in the log at which it was delivered; in a record, the one that
	// the object at the target names. Epoch counts the logs accepted before.
	Log   ownership.Pair `json:"log,omitzero"`
	Epoch int            `json:"epoch,omitempty"`
}

// Want is one entry of the desired content: what the hub says of one key.
type Want struct {
	Kind WantKind `json:"kind"`
	// Leaf is what the hub sent; the content's root is computed from it.
	Leaf Source `json:"leaf"`
	// Kept is the last rendering before a hold or conflict, if there was one.
	Kept *Source `json:"kept,omitempty"`
	// Version and ObjectKind are those of the object to apply, if there is one.
	Version    string `json:"version,omitempty"`
	ObjectKind string `json:"objectKind,omitempty"`
	// Reason is the hold's, a constant of the API.
	Reason string `json:"reason,omitempty"`
	// Note is why the object is held, or the key that wins a conflict.
	Note string `json:"note,omitempty"`
	// Unannounced says that the hub is to have a report of it before it is made.
	Unannounced bool `json:"unannounced,omitempty"`
	// Deferred says that a change of this entry waits for proof of lineage.
	Deferred bool `json:"deferred,omitempty"`
}

// Sum is the entry's part of the root.
func (w Want) Sum(k string) wire.Sum {
	return wire.LeafSum(k, w.Leaf.UID, w.Leaf.Digest, w.Leaf.Policy)
}

// Desired says that something is to be at the target, or to be kept there.
func (w *Want) Desired() bool { return w != nil && w.Kind != WantGone && w.Kind != WantYield }

// Yields says that the object is the location's own.
func (w *Want) Yields() bool { return w != nil && w.Kind == WantYield }

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

// encodeWant makes the stored form: the entry as one line of JSON, then the object's
// bytes.
func encodeWant(w Want, object []byte) ([]byte, error) {
	head, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode desired entry: %w", err)
	}
	b := make([]byte, 0, len(head)+1+len(object))
	return append(append(append(b, head...), '\n'), object...), nil
}

// decodeWant splits the stored form. The object's bytes are part of b.
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

// typeOf reads the version, without the group, and the kind of an object.
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
	// Moved is that of the object's place, see key.Located.
	Moved string `json:"moved,omitempty"`
	// UID is that of the object at the target.
	UID string `json:"uid"`
	// As is the owner in the object's marks; empty: an older agent wrote the record.
	As ownership.Owner `json:"as,omitempty"`
	// Generation is that of the object at the target after the last apply.
	Generation int64 `json:"generation,omitempty"`
	// Fields is the hash of our managed fields after the last apply.
	Fields  ownership.FieldsHash `json:"fields"`
	Version string               `json:"version"`
	Kind    string               `json:"kind"`
	// Mutated is what admission at the target changed in the last apply; nil: nothing.
	Mutated *Mutation `json:"mutated,omitempty"`
	// Recreation is what the object is to be deleted and made anew for, if its removal has been
	// counted for that; nil: it has not.
	Recreation *Recreation `json:"recreation,omitempty"`
	// LetGo is why the object ceased to be desired the last time; nil: it is not known.
	LetGo *LetGo `json:"letGo,omitempty"`
}

// LetGo is why an object ceased to be desired: for what cause, and by which Placement.
type LetGo struct {
	Cause     wire.Cause `json:"cause"`
	Placement string     `json:"placement,omitempty"`
}

// Recreation names the source for which an object at the target is to be deleted and made
// anew. While a record has it, that removal has been counted.
type Recreation struct {
	UID    string   `json:"uid"`
	Digest wire.Sum `json:"digest"`
}

// RecreationFor is the recreation for a source.
func RecreationFor(s Source) *Recreation { return &Recreation{UID: s.UID, Digest: s.Digest} }

// Recreates reports whether the removal of the object has been counted, to make it anew for a
// source.
func (r *Record) Recreates(s Source) bool {
	return r != nil && r.Recreation != nil && *r.Recreation == *RecreationFor(s)
}

// Mutation is what admission at the target changed in the last apply.
type Mutation struct {
	// Fields are the fields that it changed, as a message lists them.
	Fields string `json:"fields"`
	// Tries is how often the object was applied again in vain, Due when it is applied
	// the next time.
	Tries uint8     `json:"tries,omitempty"`
	Due   time.Time `json:"due"`
}

// inherit keeps the pair of the entry before if the source is still the same: it was
// desired all the time since that place, so it is in every log that has the place. If the
// policy protects more now, that is true only in a log that has the change. A CreateOnly
// object keeps its pair even if its source changes, since it is not written for that.
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

// protects says that a policy leaves something alone at the target, or leaves it there,
// that the one before did not.
func protects(p, before wire.Policy) bool {
	return p.CreateOnly && !before.CreateOnly || p.Orphan && !before.Orphan || p.ReportDrift && !before.ReportDrift ||
		before.Recreate && !p.Recreate || p.Release != "" && p.Release != before.Release
}

// Rebase gives an entry from before the last acceptance of a log the place of that, since
// its own is of a log that is no longer followed.
func (w *Want) Rebase(m *Meta) {
	for _, s := range []*Source{&w.Leaf, w.Kept} {
		if s != nil && s.Epoch < m.Epoch {
			s.Log, s.Epoch = m.Accepted, m.Epoch
		}
	}
}
