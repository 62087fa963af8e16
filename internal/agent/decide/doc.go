// Package decide is the agent's judgement of one identity at the target: from what is
// desired, what was applied, what is observed and what was last reported, it decides what
// to do and what to report. It is pure: it keeps no state, does no I/O, and gets the time
// as a parameter. If a fact takes a request to find out, it decides to make that request;
// the caller then asks again with the answer.
package decide
