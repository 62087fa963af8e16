// Package life tests how spaces and namespaces come and go, and that they stay
// apart while they are there: on hub processes, over HTTP as clients speak it.
package life
