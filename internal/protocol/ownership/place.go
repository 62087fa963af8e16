package ownership

import (
	"strconv"
	"strings"
	"unique"
)

// maxMarker bounds the length of a hub marker.
const maxMarker = 64

// Pair is a place in a hub's log: a revision, and the newest hub marker at or below it.
// The zero pair is none. There is one for each observed object but there are few
// markers, so markers are interned.
type Pair struct {
	name     unique.Handle[string]
	Revision int64
}

// NewPair is the place of a revision; the zero pair if marker or revision is not valid.
func NewPair(marker string, revision int64) Pair {
	if marker == "" || len(marker) > maxMarker || revision <= 0 {
		return Pair{}
	}
	return Pair{unique.Make(strings.Clone(marker)), revision}
}

// ParsePair reads what String writes. It returns the zero pair for anything else.
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

// IsZero says that there is no pair.
func (p Pair) IsZero() bool { return p == Pair{} }

// Marker is the newest marker at or below the revision; empty for the zero pair.
func (p Pair) Marker() string {
	if p.IsZero() {
		return ""
	}
	return p.name.Value()
}

// String is the pair as the annotation has it; empty for the zero pair.
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
