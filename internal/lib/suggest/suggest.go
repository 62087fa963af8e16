// Package suggest finds the name that a user probably meant.
//
// It must not know what the names are of.
package suggest

import "iter"

const (
	// maxDistance is the largest edit distance of a suggested name.
	maxDistance = 2
	// maxLength is the number of bytes of the longest name that is compared.
	maxLength = 64
)

// Nearest returns the candidate that differs from name by one or two letters, or "" if there is
// none. Of several, it returns the nearest, and then the first in alphabetical order. A name of
// fewer than three letters has no suggestions, and one of three or four only those that differ by
// one letter.
func Nearest(name string, candidates iter.Seq[string]) (near string) {
	best := min(maxDistance, (len(name)-1)/2)
	for c := range candidates {
		if d := distance(name, c); d > 0 && (d < best || d == best && (near == "" || c < near)) {
			best, near = d, c
		}
	}
	return near
}

// distance returns the edit distance (Levenshtein) of two names, or more than maxDistance for names
// that are too long or differ too much in length.
func distance(a, b string) int {
	if n := len(a) - len(b); n > maxDistance || n < -maxDistance || len(a) > maxLength {
		return maxDistance + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
