// Package limit holds the durations by which tests outside testing/synctest wait.
//
// A test waits for an event, and for no more than Wait. Wait is reached only when the event
// never comes, so it is the same for all tests and is not raised for one of them.
package limit

import (
	"context"
	"fmt"
	"testing"
	"time"
)

const (
	// Wait bounds the wait for one event. It is shorter than the five minutes after which hub
	// and agent look again by themselves, so that a lost notification fails a test.
	Wait = 4*time.Minute + 30*time.Second
	// Never is for leases, heartbeats, grace periods and queues that must not end during a test.
	Never = 24 * time.Hour
	// Window is how long a test watches for an event that must not happen. A shorter window
	// can miss a fault, but never report one that is not there.
	Window = 2 * time.Second
)

// Flag returns the --timeout flag of kubectl, helm and orrery for a wait of Wait.
func Flag() string { return "--timeout=" + Wait.String() }

// Context returns a context that ends after Wait, or with the test. After Wait, its cause names
// what the test waited for.
func Context(t testing.TB, what string) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), Wait, fmt.Errorf("after %s: %s", Wait, what))
	t.Cleanup(cancel)
	return ctx
}

// Receive returns the next value of c. It fails the test if c is closed, or if no value
// comes within Wait. It must be called by the goroutine of the test.
func Receive[E any](t testing.TB, c <-chan E, what string) E {
	t.Helper()
	timer := time.NewTimer(Wait)
	defer timer.Stop()
	select {
	case value, open := <-c:
		if !open {
			t.Fatalf("%s: the channel is closed", what)
		}
		return value
	case <-timer.C:
		t.Fatalf("%s: nothing came within %s", what, Wait)
	}
	panic("unreachable: Fatalf ends the goroutine")
}

// Closed waits until c is closed, and discards the values before that. It fails the test
// if c is still open after Wait. It must be called by the goroutine of the test.
func Closed[E any](t testing.TB, c <-chan E, what string) {
	t.Helper()
	timer := time.NewTimer(Wait)
	defer timer.Stop()
	for {
		select {
		case _, open := <-c:
			if !open {
				return
			}
		case <-timer.C:
			t.Fatalf("%s: the channel is still open after %s", what, Wait)
		}
	}
}

// Returns calls f in a goroutine of its own, and fails the test if it does not return within Wait. It must be
// called by the goroutine of the test.
func Returns(t testing.TB, f func(), what string) {
	t.Helper()
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		f()
	}()
	Closed(t, returned, what)
}
