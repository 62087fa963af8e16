package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// WantKind is the kind of a desired entry.
type WantKind string

// The kinds of desired entries.
const (
	// WantPut is an object to apply.
	WantPut WantKind = "put"
	// WantHold is an object that the cluster keeps as it is.
	WantHold WantKind = "hold"
	// WantConflict is an object whose identity belongs to another space.
	WantConflict WantKind = "conflict"
	// WantGone is an object to remove; the agent reports the removal to the hub.
	WantGone WantKind = "gone"
	// WantYield is an object that belongs to the location; the agent orphans the copy that was placed.
	WantYield WantKind = "yield"
)

// Want is a desired entry: the last frame of the hub for one key.
type Want struct {
	Kind WantKind `json:"kind"`
	// Leaf is the rendering that the hub sent. The content hash of the desired entries covers it.
	Leaf Source `json:"leaf"`
	// Kept is the last rendering before a hold or conflict, if there was one.
	Kept *Source `json:"kept,omitempty"`
	// Version and ObjectKind are the API version, without the group, and the kind of the object to
	// apply, if there is one.
	Version    string `json:"version,omitempty"`
	ObjectKind string `json:"objectKind,omitempty"`
	// Reason is the reason of a hold, a constant of the API.
	Reason string `json:"reason,omitempty"`
	// Detail explains a hold, or is the key that has precedence in a conflict.
	Detail string `json:"note,omitempty"`
	// Unannounced is true if the hub has to receive a report before the agent creates the object.
	Unannounced bool `json:"unannounced,omitempty"`
	// Deferred is true if a change of this entry waits for proof of the log.
	Deferred bool `json:"deferred,omitempty"`
}

// Sum returns the hash that the entry adds to the content hash of the desired entries.
func (w Want) Sum(k string) wire.Sum {
	return wire.LeafSum(k, w.Leaf.UID, w.Leaf.Digest, w.Leaf.Policy)
}

// Desired reports whether an object is to exist at the cluster, or to stay there.
func (w *Want) Desired() bool { return w != nil && w.Kind != WantGone && w.Kind != WantYield }

// Yields reports whether the object belongs to the location.
func (w *Want) Yields() bool { return w != nil && w.Kind == WantYield }

// Object returns the rendering to apply; nil if there is none.
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

// associated returns the associated kinds of the entry's policy; it is empty if there is no entry.
func (w *Want) associated() string {
	if w == nil || w.Object() == nil {
		return ""
	}
	return w.Object().Policy.Associated
}

// encode returns the stored form: the entry as one line of JSON, then the bytes of the object.
func (w Want) encode(object []byte) ([]byte, error) {
	head, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode desired entry: %w", err)
	}
	b := make([]byte, 0, len(head)+1+len(object))
	return append(append(append(b, head...), '\n'), object...), nil
}

// decodeWant splits the stored form. The returned bytes of the object are a part of b.
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

// typeOf reads the API version, without the group, and the kind of an object.
func typeOf(object []byte) (version, kind string, err error) {
	t := gjson.GetManyBytes(object, "apiVersion", "kind")
	_, version = key.SplitVersion(t[0].String())
	if version == "" || t[1].String() == "" {
		return "", "", errors.New("decode object: apiVersion or kind is missing")
	}
	return strings.Clone(version), strings.Clone(t[1].String()), nil
}

// inherit takes over the log position of the previous entry if the source is the same: it was
// desired all the time since that position, so each log that contains the position contains it. If
// the new policy protects more, that holds only for a log that contains the change of the policy. A
// CreateOnly object keeps its position even if its source changes, since the agent does not write it
// for that.
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

// protects reports whether a policy leaves something at the cluster unchanged, or leaves it there,
// that the previous policy did not.
func protects(p, before wire.Policy) bool {
	return p.CreateOnly && !before.CreateOnly || p.Orphan && !before.Orphan || p.ReportDrift && !before.ReportDrift ||
		before.Recreate && !p.Recreate || p.Release != "" && p.Release != before.Release
}

// Rebase gives an entry from before the last acceptance of a log the log position of that
// acceptance: its own position is of a log that the agent no longer follows.
func (w *Want) Rebase(m *Meta) {
	for _, s := range []*Source{&w.Leaf, w.Kept} {
		if s != nil && s.Epoch < m.Epoch {
			s.Log, s.Epoch = m.Accepted, m.Epoch
		}
	}
}

// Touched is an object whose desired entry may have changed, with its place at the cluster.
type Touched struct {
	Object key.Object
	Moved  string // see key.Located
	Want   *Want  // the present entry; nil if there is none
}

func newTouched(located key.Located, w *Want) Touched {
	return Touched{located.Object, located.Moved, w}
}
