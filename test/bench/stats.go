package main

import (
	"math"
	"slices"
	"time"
)

// quantile is the smallest value that at least the share q of all values does not
// exceed; all must not be empty.
func quantile(all []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// median is the middle value, or the mean of the two in the middle.
func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func milliseconds(all []time.Duration) []float64 {
	out := make([]float64, 0, len(all))
	for _, d := range all {
		out = append(out, float64(d)/float64(time.Millisecond))
	}
	return out
}
