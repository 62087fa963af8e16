//go:build race

package seeds

// raceDivisor divides the number of inputs of a run with the race detector. The detector makes
// each input up to ten times as slow, and more inputs rarely find more races. `make test` also
// runs these packages without the detector, with all inputs.
const raceDivisor = 5
