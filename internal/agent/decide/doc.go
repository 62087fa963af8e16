// Package decide is the agent's decision about one identity at the target. From the desired, recorded, observed
// and last reported object it decides what to do and what to report. The package is pure: it keeps no state,
// does no I/O, and gets the time as a parameter. If a fact needs a request, it decides to make that request; the
// caller then decides again with the answer.
package decide
