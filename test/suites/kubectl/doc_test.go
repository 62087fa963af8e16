// Package kubectl uses a space as people use a cluster, with the stock kubectl:
// the scripts in testdata are what they type, and what they then look at. What
// is expected is what a real cluster prints, or what docs/spaces.md says instead.
package kubectl
