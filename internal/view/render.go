package view

import (
	"encoding/json"
	"fmt"

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

// digestMemo is what an entry remembers: objects are rendered alike for every
// location, and a digest is small enough to keep.
type digestMemo struct {
	digest wire.Sum
	// crd is the content of the CRD by which it was rendered; empty for built-ins.
	crd string
}

// Render returns what a location gets of a row. It does not ask whether the row
// belongs to the location.
func Render(k *kinds.Kind, row *table.Row, _ key.Location) (Rendered, error) {
	object, err := k.Travel(row.Value)
	if err != nil {
		return Rendered{}, fmt.Errorf("render %q: %w", row.Key, err)
	}
	digest, ok := remembered(k, row)
	if !ok {
		digest = wire.SumOf(object)
		remember(k, row, digest)
	}
	return Rendered{object, digest}, nil
}

// Digest is the digest of what Render returns, mostly from memory.
func Digest(k *kinds.Kind, row *table.Row, l key.Location) (wire.Sum, error) {
	if digest, ok := remembered(k, row); ok {
		return digest, nil
	}
	r, err := Render(k, row, l)
	return r.Digest, err
}

func remembered(k *kinds.Kind, row *table.Row) (wire.Sum, bool) {
	memo, ok := row.Memo.Load().(digestMemo)
	if !ok || !k.StoredAsServed() || memo.crd != definition(k) {
		return wire.Sum{}, false
	}
	return memo.digest, true
}

// remember keeps the digest that agents are told of: that of the version which
// is stored. Another version's is made anew each time.
func remember(k *kinds.Kind, row *table.Row, digest wire.Sum) {
	if k.StoredAsServed() {
		row.Memo.Store(digestMemo{digest, definition(k)})
	}
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
