package marks

import (
	"strconv"
	"strings"
	"unique"
)

// maxMarker bounds the name of a marker that is taken for one.
const maxMarker = 64

// Pair is a place in a hub's log: a revision, and the newest marker at or below it.
// The zero pair is none. One is held for each object that is observed, so markers,
// of which there are few, are kept once.
type Pair struct {
	name     unique.Handle[string]
	Revision int64
}

// NewPair is the place of a revision; the zero pair if there is no such marker or revision.
func NewPair(marker string, revision int64) Pair {
	if marker == "" || len(marker) > maxMarker || revision <= 0 {
		return Pair{}
	}
	return Pair{unique.Make(strings.Clone(marker)), revision}
}

// ParsePair reads what String writes; what makes no sense is no pair.
func ParsePair(s string) Pair {
	dot := strings.LastIndexByte(s, '.')
	if dot < 0 {
		return Pair{}
	}
	revision, err := strconv.ParseInt(s[dot+1:], 10, 64)
	if err != nil {
		return Pair{}
	}
	return NewPair(s[:dot], revision)
}

// IsZero says that it is no pair.
func (p Pair) IsZero() bool { return p == Pair{} }

// Marker is the newest marker at or below the revision; empty for the zero pair.
func (p Pair) Marker() string {
	if p.IsZero() {
		return ""
	}
	return p.name.Value()
}

// String is the value of the annotation; empty: there is none.
func (p Pair) String() string {
	if p.IsZero() {
		return ""
	}
	return p.Marker() + "." + strconv.FormatInt(p.Revision, 10)
}

// MarshalText encodes as String does.
func (p Pair) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText decodes what MarshalText encodes.
func (p *Pair) UnmarshalText(b []byte) error {
	*p = ParsePair(string(b))
	return nil
}
