// Package env runs whole systems for tests and benchmarks: real Kubernetes
// clusters with pods that run, hubs, agents and kubectl, each a process of its
// own that ends with the test, however the test ends.
//
// It knows processes, ports and files, and nothing of the behavior of Orrery, which tests check. It
// never skips a test: a program that was not built fails the test. No shipped program may import it.
package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"orrery.dev/orrery/test/support/limit"
)

// T has the methods of a test that this package needs. *testing.T and *testing.B implement it, and Main
// passes an implementation to programs that are no tests.
type T interface {
	Helper()
	Name() string
	TempDir() string
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
	Cleanup(f func())
	// Context ends just before the functions given to Cleanup run.
	Context() context.Context
}

const (
	// minPoll and maxPoll are the shortest and the longest pause between two attempts. Between them
	// the pause is 1/shareOf of the time that has passed: an attempt often starts a process, so
	// waiting must be cheap.
	minPoll = 25 * time.Millisecond
	maxPoll = 500 * time.Millisecond
	shareOf = 20
	// A pause is at least restOf times the duration of the last attempt, so that a waiting test does
	// not slow down others.
	restOf = 2
)

// Soon is limit.Wait.
const Soon = limit.Wait

// Eventually calls f until it returns nil. After the timeout it fails the test with the last error, and
// a list of the distinct errors of all attempts.
func Eventually(t T, timeout time.Duration, f func() error) {
	t.Helper()
	var errs attempts
	err := poll(t.Context(), timeout, func() error {
		err := f()
		errs.add(err, time.Now())
		return err
	})
	if err != nil {
		t.Fatalf("not so after %s: %v%s", timeout, err, &errs)
	}
}

// Throughout calls f repeatedly for the duration d, and fails the test with the first error that shows a
// state. An error that shows none, because a server did not answer or was busy, is no failure; the time
// without an answer does not count toward d. Such errors are logged. They fail the test when their total
// duration reaches limit.Wait.
func Throughout(t T, d time.Duration, f func() error) {
	t.Helper()
	forgiven, err := throughout(t.Context(), d, limit.Wait, f)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if forgiven.count > 0 {
		t.Logf("attempts without an answer: %d in %s, besides %s with answers%s", forgiven.count, forgiven.lasted, d, &forgiven.attempts)
	}
}

// unansweredAttempts are the attempts of Throughout that showed no state.
type unansweredAttempts struct {
	attempts
	// lasted is the total time without an answer.
	lasted time.Duration
}

// throughout is Throughout that allows a total time without an answer.
func throughout(ctx context.Context, d, allowed time.Duration, f func() error) (unansweredAttempts, error) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	var without unansweredAttempts
	var since time.Time // lasted includes the time before; zero if the last attempt had an answer
	for end := time.Now().Add(d); ; {
		began := time.Now()
		err := f()
		now := time.Now()
		if err != nil {
			if !unanswered(err) {
				return without, fmt.Errorf("no longer so: %w%s", err, &without.attempts)
			}
			if since.IsZero() {
				since = began
			}
			without.add(err, now)
		}
		if !since.IsZero() {
			without.lasted += now.Sub(since)
			end = end.Add(now.Sub(since))
			if since = now; err == nil {
				since = time.Time{}
			}
		}
		if without.lasted >= allowed {
			return without, fmt.Errorf("no answer for %s: %w%s", allowed, err, &without.attempts)
		}
		if err == nil && !now.Before(end) {
			return without, nil
		}
		pause.Reset(minPoll)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return without, fmt.Errorf("check for %s: %w", d, errors.Join(context.Cause(ctx), err))
		}
	}
}

// pauseAfter returns the pause after an attempt that took some time, of a wait that has lasted waited.
func pauseAfter(waited, took time.Duration) time.Duration {
	return max(min(max(minPoll, waited/shareOf), maxPoll), restOf*took)
}

// poll calls f until it returns nil, with pauses between.
func poll(ctx context.Context, timeout time.Duration, f func() error) error {
	pause := time.NewTimer(timeout)
	defer pause.Stop()
	start := time.Now()
	for {
		began := time.Now()
		err := f()
		waited, took := time.Since(start), time.Since(began)
		if err == nil || waited > timeout {
			return err
		}
		pause.Reset(pauseAfter(waited, took))
		select {
		case <-pause.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// Binary returns the path of a program that `make build` or `make kube` builds.
func Binary(t T, name string) string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatalf("find the module: %v", err)
	}
	path := filepath.Join(root, ".bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is not built (`make build kube`, or make system, builds it): %v", name, err)
	}
	return path
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte("module orrery.dev/orrery\n")) {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no directory above has the go.mod of orrery.dev/orrery")
		}
		dir = up
	}
}
