// Package process describes the running process and its binary: the version from the build or from
// Go's build info, the memory limit, and profiles of the Go runtime in the format of `go tool
// pprof`.
//
// Profiles must contain only stacks and numbers: no command line, no environment, no memory
// contents. The caller authorizes access to them. The package must not contain API versions, nor
// depend on the use of the memory.
package process
