package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/bits"
	"strconv"
)

// Sum is a digest, or a sum of digests modulo 2^256. Adding digests of leaves
// makes a digest of a set that does not depend on order and that one addition
// and one subtraction keep up to date (AdHash, Bellare and Micciancio 1997).
type Sum [4]uint64

// SumOf is the SHA-256 digest of some bytes.
func SumOf(b []byte) Sum { return sumOf(sha256.Sum256(b)) }

func sumOf(h [sha256.Size]byte) Sum {
	var s Sum
	for i := range s {
		for j := range 8 {
			s[i] = s[i]<<8 | uint64(h[8*i+j])
		}
	}
	return s
}

// LeafSum is what one object adds to the sum of a location's content: its key, the
// source's UID, the digest of the rendered object and how it is treated.
func LeafSum(k, uid string, digest Sum, policy Policy) Sum {
	b := make([]byte, 0, 256)
	for _, part := range []string{k, uid} {
		b = append(append(strconv.AppendInt(b, int64(len(part)), 10), ':'), part...)
	}
	b = digest.appendTo(b)
	if policy != (Policy{}) {
		p, err := json.Marshal(policy)
		if err != nil { // a struct of plain fields
			panic(err)
		}
		b = append(b, p...)
	}
	return SumOf(b)
}

// Add returns s + o.
func (s Sum) Add(o Sum) Sum {
	var carry uint64
	for i := len(s) - 1; i >= 0; i-- {
		s[i], carry = bits.Add64(s[i], o[i], carry)
	}
	return s
}

// Sub returns s - o.
func (s Sum) Sub(o Sum) Sum {
	var borrow uint64
	for i := len(s) - 1; i >= 0; i-- {
		s[i], borrow = bits.Sub64(s[i], o[i], borrow)
	}
	return s
}

// IsZero says whether s is the sum of nothing.
func (s Sum) IsZero() bool { return s == Sum{} }

// String is the sum in hexadecimal.
func (s Sum) String() string { return string(s.appendTo(nil)) }

func (s Sum) appendTo(text []byte) []byte {
	var b [32]byte
	for i, part := range s {
		binary.BigEndian.PutUint64(b[8*i:], part)
	}
	return hex.AppendEncode(text, b[:])
}

// MarshalText encodes in hexadecimal; the zero sum is empty.
func (s Sum) MarshalText() ([]byte, error) {
	if s.IsZero() {
		return nil, nil
	}
	return s.appendTo(nil), nil
}

// UnmarshalText decodes what MarshalText encodes.
func (s *Sum) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*s = Sum{}
		return nil
	}
	var h [sha256.Size]byte
	if hex.DecodedLen(len(text)) != len(h) {
		return fmt.Errorf("digest %q: want %d hexadecimal digits", text, hex.EncodedLen(len(h)))
	}
	if _, err := hex.Decode(h[:], text); err != nil {
		return fmt.Errorf("digest %q: %w", text, err)
	}
	*s = sumOf(h)
	return nil
}
