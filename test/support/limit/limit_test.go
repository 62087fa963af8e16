package limit_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"orrery.dev/orrery/test/support/limit"
)

// recorder is a test whose failure is recorded instead of reported.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	panic(r)
}

// failureOf runs f and returns the message with which it failed its test, if it did.
func failureOf(t *testing.T, f func(testing.TB)) (message string) {
	t.Helper()
	r := &recorder{TB: t}
	defer func() {
		if p := recover(); p != nil && p != any(r) {
			panic(p)
		}
		message = r.failure
	}()
	f(r)
	return r.failure
}

func TestReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		values := make(chan int, 1)
		values <- 7
		if got := limit.Receive(t, values, "a value"); got != 7 {
			t.Errorf("got %d, want 7", got)
		}
		if got := failureOf(t, func(t testing.TB) { limit.Receive(t, values, "a value") }); got != "a value: nothing came within 4m30s" {
			t.Errorf("the test failed with %q", got)
		}
		close(values)
		if got := failureOf(t, func(t testing.TB) { limit.Receive(t, values, "a value") }); got != "a value: the channel is closed" {
			t.Errorf("the test failed with %q", got)
		}
	})
}

func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		values := make(chan int, 1)
		values <- 7
		if got := failureOf(t, func(t testing.TB) { limit.Closed(t, values, "the end") }); got != "the end: the channel is still open after 4m30s" {
			t.Errorf("the test failed with %q", got)
		}
		close(values)
		limit.Closed(t, values, "the end")
	})
}

func TestReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		if got := failureOf(t, func(t testing.TB) { limit.Returns(t, func() { <-done }, "the call") }); got != "the call: the channel is still open after 4m30s" {
			t.Errorf("the test failed with %q", got)
		}
		close(done)
		called := false
		if limit.Returns(t, func() { called = true }, "the call"); !called {
			t.Error("the function was not called")
		}
	})
}

func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := limit.Context(t, "the answer")
		<-ctx.Done()
		if got := context.Cause(ctx).Error(); got != "after 4m30s: the answer" {
			t.Errorf("the context ended with %q", got)
		}
	})
}
