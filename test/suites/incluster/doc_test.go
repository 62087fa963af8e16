// Package incluster shows that what "orrery location add --manifest" prints is taken by a
// real API server, and that the agent works with nothing but what that gives it.
package incluster
