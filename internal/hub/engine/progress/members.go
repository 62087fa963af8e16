package progress

import (
	"iter"
	"math/bits"
)

// members is a set of members of a Membership, by their index. The zero value is empty.
type members []uint64

const wordBits = 64

// noneOf returns an empty set for n members.
func noneOf(n int) members { return make(members, (n+wordBits-1)/wordBits) }

func allOf(n int) members {
	m := noneOf(n)
	for i := range n {
		m.add(i)
	}
	return m
}

func (m members) add(i int) { m[i/wordBits] |= 1 << (i % wordBits) }
func (m members) contains(i int) bool {
	return i/wordBits < len(m) && m[i/wordBits]&(1<<(i%wordBits)) != 0
}
func (m members) remove(i int) { m[i/wordBits] &^= 1 << (i % wordBits) }

// from returns the lowest member that is not below i, or else the lowest; ok is false if there is none.
func (m members) from(i int) (member int, ok bool) {
	if len(m) == 0 {
		return 0, false
	}
	start := i / wordBits
	for n := range len(m) + 1 {
		w := (start + n) % len(m)
		word := m[w]
		if n == 0 && start < len(m) {
			word &= ^uint64(0) << (i % wordBits)
		}
		if word != 0 {
			return w*wordBits + bits.TrailingZeros64(word), true
		}
	}
	return 0, false
}

func (m members) size() (n int) {
	for _, word := range m {
		n += bits.OnesCount64(word)
	}
	return n
}

// all yields the members in order.
func (m members) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for w, word := range m {
			for ; word != 0; word &= word - 1 {
				if !yield(w*wordBits + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}
