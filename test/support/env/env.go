// Package env runs whole systems for tests and benchmarks: real Kubernetes
// clusters with pods that run, hubs, agents and kubectl, each a process of its
// own that ends with the test, however the test ends.
//
// It knows processes, ports and files, and nothing of what Orrery does: what
// ought to hold is for the test to say. It never skips: a part that was not
// built fails the test. It must not be imported by anything that ships.
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

// T is what the harness asks of a test. *testing.T and *testing.B have it, and
// Main gives it to a program that is not a test.
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
	// pollEvery is the time between two looks at something that has no way to tell.
	pollEvery = 25 * time.Millisecond
	// pollSeldom is the longest time between two looks. On the way there it is 1/shareOf
	// of the time that has passed: a look often starts a process, so waiting must be cheap.
	pollSeldom = 500 * time.Millisecond
	shareOf    = 20
	// restOf is how much longer than a look took nobody looks again: tests that only wait are not to
	// be what others wait for.
	restOf = 2
)

// Soon is limit.Wait.
const Soon = limit.Wait

// Eventually calls f until it returns nil. It fails the test when timeout passes first, with the
// last error and with those before it: which, how often and when.
func Eventually(t T, timeout time.Duration, f func() error) {
	t.Helper()
	var errs looks
	err := poll(t.Context(), timeout, func() error {
		err := f()
		errs.add(err, time.Now())
		return err
	})
	if err != nil {
		t.Fatalf("not so after %s: %v%s", timeout, err, &errs)
	}
}

// Throughout calls f again and again for as long as d, and fails the test with the first error
// that shows a state. An error that shows none, since a server did not answer or was busy, is
// looked at again, and d does not pass meanwhile. Such errors are logged, and fail the test when
// they have lasted limit.Wait, all together.
func Throughout(t T, d time.Duration, f func() error) {
	t.Helper()
	forgiven, err := throughout(t.Context(), d, limit.Wait, f)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if forgiven.count > 0 {
		t.Logf("looks without an answer, %d in %s, beside %s with one%s", forgiven.count, forgiven.lasted, d, &forgiven.looks)
	}
}

// unansweredLooks are the looks of Throughout that showed no state.
type unansweredLooks struct {
	looks
	// lasted is how long there was no answer, all together.
	lasted time.Duration
}

// throughout is Throughout that waits for patience, all together, while f gets no answer.
func throughout(ctx context.Context, d, patience time.Duration, f func() error) (unansweredLooks, error) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	var without unansweredLooks
	var since time.Time // until when lasted is counted; zero: the last look had an answer
	for end := time.Now().Add(d); ; {
		began := time.Now()
		err := f()
		now := time.Now()
		if err != nil {
			if !unanswered(err) {
				return without, fmt.Errorf("no longer so: %w%s", err, &without.looks)
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
		if without.lasted >= patience {
			return without, fmt.Errorf("no answer for %s: %w%s", patience, err, &without.looks)
		}
		if err == nil && !now.Before(end) {
			return without, nil
		}
		pause.Reset(pollEvery)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return without, fmt.Errorf("look on for %s: %w", d, errors.Join(context.Cause(ctx), err))
		}
	}
}

// seldom is the pause after so long a wait, of which the last look took so much.
func seldom(waited, took time.Duration) time.Duration {
	return max(min(max(pollEvery, waited/shareOf), pollSeldom), restOf*took)
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
		pause.Reset(seldom(waited, took))
		select {
		case <-pause.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// Binary returns the path of a part built by `make build` or `make kube`.
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
