// Package clients shows that stock clients work with a space as they do with a
// cluster, and notices what they find different: Helm, kubectl, Flux's apply engine,
// client-go and controller-runtime, against the hub as a process.
//
// It knows nothing of Orrery but its command line. The clients are those that users
// run today, which are newer than the libraries that the hub is built on.
package clients
