// Package kinds shows with a real hub, agent and cluster that stock clients can write every generally
// available kind of Kubernetes to a space, that a location receives exactly the written objects, and
// how a real cluster stores them.
//
// It reads the kinds from the discovery of a space and from the samples of the tests of
// internal/hub/kinds/builtin, and uses nothing else of that package: the desired objects are
// compared with the samples, not with the code's own view of them.
package kinds
