package demo

import (
	"fmt"
)

// locationName names the i-th location.
func locationName(i int) string {
	if names := []string{"north", "south", "east", "west"}; i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("place-%d", i+1)
}

// stageOf returns the initial stage label of the i-th of n locations: production for all, but test
// for the last of three or more.
func stageOf(i, n int) string {
	if n > minLocations && i == n-1 {
		return "test"
	}
	return production
}
