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

// Sum is a digest, or a sum of digests modulo 2^256. The sum of the digests of leaves is a digest
// of their set. It is independent of order, and one addition and one subtraction update it (AdHash,
// Bellare and Micciancio 1997).
type Sum [4]uint64

// SumOf returns the SHA-256 digest of some bytes.
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

// LeafSum returns the part of one object in the content hash of a location: a digest of its key,
// the source's UID, the digest of the rendered object and its policy.
func LeafSum(k, uid string, digest Sum, policy Policy) Sum {
	b := make([]byte, 0, 256)
	for _, text := range []string{k, uid} {
		b = append(append(strconv.AppendInt(b, int64(len(text)), 10), ':'), text...)
	}
	b = digest.appendTo(b)
	if policy != (Policy{}) {
		p, err := json.Marshal(policy)
		if err != nil { // a struct of plain fields always encodes
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

// IsZero reports whether s is the sum of the empty set.
func (s Sum) IsZero() bool { return s == Sum{} }

// String returns the sum in hexadecimal.
func (s Sum) String() string { return string(s.appendTo(nil)) }

func (s Sum) appendTo(text []byte) []byte {
	var b [32]byte
	for i, word := range s {
		binary.BigEndian.PutUint64(b[8*i:], word)
	}
	return hex.AppendEncode(text, b[:])
}

// MarshalText encodes the sum in hexadecimal; the zero sum is empty.
func (s Sum) MarshalText() ([]byte, error) {
	if s.IsZero() {
		return nil, nil
	}
	return s.appendTo(nil), nil
}

// UnmarshalText decodes the output of MarshalText.
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
