//go:build !race

package seeds

// raceDivisor is 1: a run without the race detector has all inputs.
const raceDivisor = 1
