package worklist

import (
	"encoding/hex"
	"slices"
	"strings"
	"unique"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// short is a string of which there are few, or which few have, in the eight bytes of a pointer.
type short[T ~string] struct{ text unique.Handle[T] }

func shorten[T ~string](s T) short[T] {
	if s == "" {
		return short[T]{}
	}
	return short[T]{unique.Make(s)}
}

func (s short[T]) empty() bool { return s == short[T]{} }

func (s short[T]) value() T {
	if s.empty() {
		return ""
	}
	return s.text.Value()
}

// spaces are the spaces of an item in the order in which they came, as one text: each with a
// slash, which no name of a space has, behind it.
type spaces struct{ names short[string] }

func packSpaces(all ...key.Space) spaces {
	var names strings.Builder
	for _, s := range all {
		names.WriteString(string(s))
		names.WriteByte('/')
	}
	return spaces{shorten(names.String())}
}

func (s spaces) none() bool { return s.names.empty() }

// one reports whether there is exactly one.
func (s spaces) one() bool { return strings.Count(s.names.value(), "/") == 1 }

// first is the one that came first; empty: there is none.
func (s spaces) first() key.Space {
	first, _, _ := strings.Cut(s.names.value(), "/")
	return key.Space(first)
}

func (s spaces) list() (all []key.Space) {
	for name := range strings.SplitSeq(s.names.value(), "/") {
		all = append(all, key.Space(name))
	}
	return all[:len(all)-1] // nothing is behind the last slash
}

// with are they and one more, if it is none of them.
func (s spaces) with(one key.Space) spaces {
	if all := s.list(); !slices.Contains(all, one) {
		return packSpaces(append(all, one)...)
	}
	return s
}

// without are they but for some.
func (s spaces) without(some []key.Space) spaces {
	if len(some) == 0 {
		return s
	}
	return packSpaces(slices.DeleteFunc(s.list(), func(one key.Space) bool { return slices.Contains(some, one) })...)
}

// seen is a decide.Observed in less than half of the bytes.
type seen struct {
	// uid is the object's, if that is written as API servers write them.
	uid       [16]byte
	unusual   unique.Handle[unusual] // zero: there is nothing unusual
	revision  uint64
	fields    ownership.FieldsHash
	log       ownership.Pair
	existence decide.Existence
	flags     flags
}

// unusual has values of an observation that few objects have, or many in common.
type unusual struct {
	uid     string // if it is written in another way
	account string
}

// flags are the booleans of a decide.Observed.
type flags uint8

const (
	terminating flags = 1 << iota
	unmarked
	taken
	owned
	released
	inherited
	heirloom
)

func (s *seen) is(f flags) bool { return s.flags&f != 0 }

// each calls f with the booleans of an observation.
func each(o *decide.Observed, f func(flag flags, is *bool)) {
	f(terminating, &o.Terminating)
	f(unmarked, &o.Unmarked)
	f(taken, &o.Taken)
	f(owned, &o.Owned)
	f(released, &o.Released)
	f(inherited, &o.Inherited)
	f(heirloom, &o.Heirloom)
}

func pack(o decide.Observed) seen {
	s := seen{revision: o.Revision, fields: o.Fields, log: o.Log, existence: o.Existence}
	each(&o, func(flag flags, is *bool) {
		if *is {
			s.flags |= flag
		}
	})
	var rest unusual
	var ok bool
	if s.uid, ok = packUID(o.UID); !ok {
		rest.uid = o.UID
	}
	if rest.account = o.Account; rest != (unusual{}) {
		s.unusual = unique.Make(rest)
	}
	return s
}

// observed is what was packed.
func (s *seen) observed() decide.Observed {
	o := decide.Observed{Existence: s.existence, UID: s.id(), Revision: s.revision, Fields: s.fields, Log: s.log}
	each(&o, func(flag flags, is *bool) { *is = s.is(flag) })
	if s.unusual != (unique.Handle[unusual]{}) {
		o.Account = s.unusual.Value().account
	}
	return o
}

// id is the UID of the object; empty: there is none.
func (s *seen) id() string {
	switch {
	case s.uid != [16]byte{}:
		return unpackUID(s.uid)
	case s.unusual != (unique.Handle[unusual]{}):
		return s.unusual.Value().uid
	default:
		return ""
	}
}

// dashes is the number of dashes of a UUID; isDash reports whether one is at an index.
const dashes = 4

func isDash(index int) bool { return index == 8 || index == 13 || index == 18 || index == 23 }

// packUID is a UUID in lower case, with dashes, as bytes. It returns false for any other text, also
// for the one whose bytes stand for none.
func packUID(text string) (b [16]byte, ok bool) {
	var digits [2 * len(b)]byte
	if len(text) != len(digits)+dashes {
		return b, false
	}
	n := 0
	for i := range len(text) {
		if !isDash(i) {
			digits[n] = text[i]
			n++
		}
	}
	if _, err := hex.Decode(b[:], digits[:]); err != nil || unpackUID(b) != text || b == [16]byte{} {
		return [16]byte{}, false
	}
	return b, true
}

func unpackUID(b [16]byte) string {
	text := make([]byte, 0, 2*len(b)+dashes)
	for i := range b {
		if isDash(len(text)) {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, b[i:i+1])
	}
	return string(text)
}
