// Package conformance sends the same requests to a space and to a real kube-apiserver, and compares
// the responses: status codes, reasons, causes, messages, warnings, and the objects that reads
// return afterwards. The real server defines the expected result, so the requirements of the API
// machinery suites of Kubernetes need not be written down again.
//
// A behaviour is a function that sends requests to one side and records a transcript, in which all
// values that vary between runs are replaced. Where a space differs on purpose, the table of
// behaviours has the difference and its reason, and the difference has to be exactly that one.
package conformance
