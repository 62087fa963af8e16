// Package clients shows that stock clients (Helm, kubectl, Flux's apply engine, client-go
// and controller-runtime) work with a space, served by a hub process, as they do with a
// cluster, and notes where they find it different; and that the example's controllers serve
// an API to many spaces.
//
// It knows nothing of Orrery but its command line. The clients are those that users
// run today, which are newer than the libraries that the hub is built on.
package clients
