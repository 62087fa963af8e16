package wire

import (
	"fmt"
	"slices"
	"strings"
)

// Two sides with sets of leaves find the differences by comparing sums of spans of keys. For a span
// that differs, one side gets from the other either the sums of its parts, to compare those, or, if
// the span is small, its leaves. A difference of d leaves among n costs O(d log n) bytes, and equal
// sets cost one comparison of their roots.

const (
	// splitWays is the number of parts that a large span is split into.
	splitWays = 16
	// splitAbove is the maximum number of leaves that a span lists; a larger one is split.
	splitAbove = 128
	// MaxSpans is the maximum number of spans in one request. It limits the response to MaxSpans
	// times splitAbove leaves.
	MaxSpans = 64
)

// Span is a range of keys, with the sum of one side's leaves in it. From is included, To is not; an
// empty value is no bound.
type Span struct {
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	Sum   Sum    `json:"sum"`
	Count int    `json:"count"`
}

// Leaf is one key of a side's content and its sum: LeafSum for desired objects, and the Sum of the
// report for reports.
type Leaf struct {
	Key string `json:"key"`
	Sum Sum    `json:"sum"`
}

// RangeDifference is one side's content of a span that differs: Split if the span is large, otherwise Leaves.
// Both are nil if the side has no leaves there.
type RangeDifference struct {
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	Split  []Span `json:"split,omitempty"`
	Leaves []Leaf `json:"leaves,omitempty"`
}

// Index contains one side's leaves in key order, with sums over spans. It is immutable.
type Index struct {
	leaves []Leaf
	// sums[i] is the sum of the first i leaves.
	sums []Sum
}

// NewIndex indexes leaves, which must be in key order without duplicates.
func NewIndex(leaves []Leaf) (*Index, error) {
	ix := &Index{leaves: leaves, sums: make([]Sum, len(leaves)+1)}
	for i, leaf := range leaves {
		if i > 0 && leaves[i-1].Key >= leaf.Key {
			return nil, fmt.Errorf("leaf %d: key %q is not above %q", i, leaf.Key, leaves[i-1].Key)
		}
		ix.sums[i+1] = ix.sums[i].Add(leaf.Sum)
	}
	return ix, nil
}

// Span returns a range of keys with the sum of this side.
func (ix *Index) Span(from, to string) Span {
	i, j := ix.bounds(from, to)
	return Span{From: from, To: to, Sum: ix.sums[j].Sub(ix.sums[i]), Count: j - i}
}

// Equal reports whether two indexes have the same leaves.
func (ix *Index) Equal(o *Index) bool {
	n := len(ix.leaves)
	return n == len(o.leaves) && ix.sums[n] == o.sums[n] && slices.Equal(ix.leaves, o.leaves)
}

// bounds returns the positions of the first leaf in a range and the first after it.
func (ix *Index) bounds(from, to string) (i, j int) {
	i, _ = slices.BinarySearchFunc(ix.leaves, from, compareLeaf)
	if to == "" {
		return i, len(ix.leaves)
	}
	j, _ = slices.BinarySearchFunc(ix.leaves, to, compareLeaf)
	return i, max(i, j)
}

func compareLeaf(l Leaf, k string) int { return strings.Compare(l.Key, k) }

// Answer returns a part for each span in which the other side differs from this one.
func (ix *Index) Answer(requested []Span) []RangeDifference {
	var answer []RangeDifference
	for _, s := range requested {
		mine := ix.Span(s.From, s.To)
		if mine.Sum == s.Sum && mine.Count == s.Count {
			continue
		}
		answered := RangeDifference{From: s.From, To: s.To}
		if i, j := ix.bounds(s.From, s.To); j-i > splitAbove {
			answered.Split = ix.split(s.From, s.To, i, j)
		} else if j > i {
			answered.Leaves = ix.leaves[i:j]
		}
		answer = append(answer, answered)
	}
	return answer
}

// split divides a range into parts with about the same number of leaves, without gaps.
func (ix *Index) split(from, to string, i, j int) []Span {
	spans := make([]Span, 0, splitWays)
	for n := range splitWays {
		next := to
		if n < splitWays-1 {
			next = ix.leaves[i+(j-i)*(n+1)/splitWays].Key
		}
		spans = append(spans, ix.Span(from, next))
		from = next
	}
	return spans
}

// Difference is the result of comparing a part of the other side: spans to request next, keys for
// which the other side has a different leaf or the only one, and keys that only this side has.
type Difference struct {
	Next   []Span
	Theirs []string
	Mine   []string
}

// Compare compares a part of the other side with this side's leaves.
func (ix *Index) Compare(p RangeDifference) Difference {
	var d Difference
	if p.Split != nil {
		for _, theirs := range p.Split {
			mine := ix.Span(theirs.From, theirs.To)
			if mine.Sum != theirs.Sum || mine.Count != theirs.Count {
				d.Next = append(d.Next, mine)
			}
		}
		return d
	}
	i, j := ix.bounds(p.From, p.To)
	mine, theirs := ix.leaves[i:j], p.Leaves
	for len(mine) > 0 || len(theirs) > 0 {
		switch {
		case len(theirs) == 0 || len(mine) > 0 && mine[0].Key < theirs[0].Key:
			d.Mine = append(d.Mine, mine[0].Key)
			mine = mine[1:]
		case len(mine) == 0 || theirs[0].Key < mine[0].Key:
			d.Theirs = append(d.Theirs, theirs[0].Key)
			theirs = theirs[1:]
		default:
			if mine[0].Sum != theirs[0].Sum {
				d.Theirs = append(d.Theirs, theirs[0].Key)
			}
			mine, theirs = mine[1:], theirs[1:]
		}
	}
	return d
}
