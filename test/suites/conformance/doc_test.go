// Package conformance asks a space and a real kube-apiserver the same, and
// compares what they answer: status codes, reasons, causes, messages, warnings
// and what can be read afterwards. What Kubernetes' own API machinery suites
// demand of a server is thereby demanded of a space without being written down
// twice: the real server says what is right.
//
// A behaviour is a function that talks to one side and leaves a transcript, in
// which all that differs from run to run is replaced. Where a space is to differ,
// the table of behaviours says how and why, and the difference has to be exactly
// that one.
package conformance
