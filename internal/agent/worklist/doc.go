// Package worklist knows, in memory, each identity that concerns the agent: what is observed
// of it, whether it is desired, and what was last reported of it. It gives the identities to
// the workers one by one, in order and each to one worker at a time, and takes back what
// came of it. It says what is to be observed and is told what lists, watches and answers
// showed; and it orders what leaves together.
//
// All of it is behind one lock. The engine must never block, do I/O (but for loading what the
// store holds before the workers start), or call those who use it.
package worklist
