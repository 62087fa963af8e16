// Package decide is the agent's judgement of one identity at the target: of what is
// desired, what was applied, what is observed there and what was reported, it says what
// to do and what to report of it. It keeps nothing, asks nobody, and is told the time.
// What takes a request to know is a decision to make that, and to come back with it.
package decide
