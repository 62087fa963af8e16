package ownership

import (
	"strconv"
	"strings"
	"unique"
)

// maxMarker is the maximum length of a hub marker.
const maxMarker = 64

// Pair is a position in a hub's log: a revision, and the newest hub marker (log epoch) at or below
// it. The zero value means none. There is one for each observed object but there are few markers,
// so markers are interned.
type Pair struct {
	name     unique.Handle[string]
	Revision int64
}

// NewPair returns the position of a revision; zero if marker or revision is invalid.
func NewPair(marker string, revision int64) Pair {
	if marker == "" || len(marker) > maxMarker || revision <= 0 {
		return Pair{}
	}
	return Pair{unique.Make(strings.Clone(marker)), revision}
}

// ParsePair parses the output of String. It returns zero for anything else.
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

// IsZero reports whether p is the zero value.
func (p Pair) IsZero() bool { return p == Pair{} }

// Marker returns the newest marker at or below the revision; empty for the zero value.
func (p Pair) Marker() string {
	if p.IsZero() {
		return ""
	}
	return p.name.Value()
}

// String returns the value of the annotation; empty for the zero value.
func (p Pair) String() string {
	if p.IsZero() {
		return ""
	}
	return p.Marker() + "." + strconv.FormatInt(p.Revision, 10)
}

// MarshalText encodes the position like String.
func (p Pair) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText decodes the output of MarshalText.
func (p *Pair) UnmarshalText(b []byte) error {
	*p = ParsePair(string(b))
	return nil
}
