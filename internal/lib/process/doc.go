// Package process is what a binary of Orrery knows of itself and of the process that it runs
// in: its version, as its build said or as Go has noted it; how much memory it may have, with
// garbage collected before it takes more; and what the Go runtime measures, in the format of
// `go tool pprof`.
//
// Profiles must never show more than stacks and numbers: no command line, no environment, no
// contents of memory. Who may read them is for the caller to decide. The package must never
// name the version of an API, nor know what the memory is for.
package process
