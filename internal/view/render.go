package view

import (
	"encoding/json"
	"fmt"
	"unsafe"
	"weak"

	"orrery.dev/orrery/internal/key"
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

// Traveller says what of an object travels. It is a function of the object's
// bytes and of its resource; the kinds of all versions of a resource agree.
type Traveller interface {
	Travel(value []byte) ([]byte, error)
}

// rendering is what an entry remembers: objects are rendered alike for every
// location. The digest is small enough to keep; the bytes are found again only
// while somebody else holds them, as when many locations are told of one edit.
type rendering struct {
	digest wire.Sum
	first  weak.Pointer[byte]
	size   int // 0: not rendered yet
	// today is the ID of the definition by which the value reads as it is written.
	today uint64
}

// Render returns what a location gets of a row, whose resource t is for. It
// does not ask whether the row belongs to the location. The caller must not
// change the object.
func Render(t Traveller, row *table.Row, _ key.Location) (Rendered, error) {
	known, ok := remembered(row)
	if first := known.first.Value(); first != nil {
		return Rendered{unsafe.Slice(first, known.size), known.digest}, nil
	}
	object, err := t.Travel(row.Value)
	if err != nil {
		return Rendered{}, fmt.Errorf("render %q: %w", row.Key, err)
	}
	if !ok {
		known.digest = wire.SumOf(object)
	}
	known.first, known.size = weak.Make(unsafe.SliceData(object)), len(object)
	row.Memo.Store(known)
	return Rendered{object, known.digest}, nil
}

// Digest is the digest of what Render returns, mostly from memory.
func Digest(t Traveller, row *table.Row, l key.Location) (wire.Sum, error) {
	if known, ok := remembered(row); ok {
		return known.digest, nil
	}
	r, err := Render(t, row, l)
	return r.Digest, err
}

func remembered(row *table.Row) (rendering, bool) {
	known, _ := row.Memo.Load().(rendering)
	return known, known.size > 0
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
