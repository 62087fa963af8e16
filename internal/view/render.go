package view

import (
	"encoding/json"
	"fmt"
	"unsafe"
	"weak"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/kinds"
	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/wire"
)

// Rendered is an object as a location gets it.
type Rendered struct {
	// Object is canonical JSON: what the user wrote, without what belongs to
	// the center.
	Object json.RawMessage
	// Digest is the SHA-256 of Object.
	Digest wire.Sum
}

// rendering is what an entry remembers: objects are rendered alike for every
// location. The digest is small enough to keep; the bytes are found again only
// while somebody else holds them, as when many locations are told of one edit.
type rendering struct {
	digest wire.Sum
	// crd is the content of the CRD by which it was rendered; empty for built-ins.
	crd   string
	first weak.Pointer[byte]
	size  int
}

// Render returns what a location gets of a row. It does not ask whether the row
// belongs to the location. The caller must not change the object.
func Render(k *kinds.Kind, row *table.Row, _ key.Location) (Rendered, error) {
	known, ok := remembered(k, row)
	if first := known.first.Value(); first != nil {
		return Rendered{unsafe.Slice(first, known.size), known.digest}, nil
	}
	object, err := k.Travel(row.Value)
	if err != nil {
		return Rendered{}, fmt.Errorf("render %q: %w", row.Key, err)
	}
	if !ok {
		known = rendering{digest: wire.SumOf(object), crd: definition(k)}
	}
	known.first, known.size = weak.Make(unsafe.SliceData(object)), len(object)
	// Agents are told of the version that is stored: only that one is kept.
	if k.StoredAsServed() {
		row.Memo.Store(known)
	}
	return Rendered{object, known.digest}, nil
}

// Digest is the digest of what Render returns, mostly from memory.
func Digest(k *kinds.Kind, row *table.Row, l key.Location) (wire.Sum, error) {
	if known, ok := remembered(k, row); ok {
		return known.digest, nil
	}
	r, err := Render(k, row, l)
	return r.Digest, err
}

func remembered(k *kinds.Kind, row *table.Row) (rendering, bool) {
	known, ok := row.Memo.Load().(rendering)
	if !ok || !k.StoredAsServed() || known.crd != definition(k) {
		return rendering{}, false
	}
	return known, true
}

func definition(k *kinds.Kind) string {
	if k.Custom == nil {
		return ""
	}
	return k.Custom.Hash()
}

// placed is the membership of rows that go to locations.
type placed interface {
	Place(location string) (placement.Place, bool)
}

// Holds says whether a location is to have a row's object: it is assigned, not
// held back, and no other space's object keeps it out.
func Holds(row *table.Row, l key.Location) bool {
	if row.In == nil {
		return false
	}
	p, ok := row.In.(placed)
	if !ok {
		return row.In.Has(string(l))
	}
	place, ok := p.Place(string(l))
	return ok && place.Held == "" && place.Owner == ""
}
