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
	"os"
	"path/filepath"
	"time"
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

// Soon is how long a change may take to arrive on a machine that is several times as slow as
// others, and busy. It bounds waiting; how fast things are is for the benchmarks to say.
const Soon = 3 * time.Minute

// Eventually calls f until it returns nil, and fails the test with its last
// error when timeout passes first.
func Eventually(t T, timeout time.Duration, f func() error) {
	t.Helper()
	if err := poll(t.Context(), timeout, seldom, f); err != nil {
		t.Fatalf("not so after %s: %v", timeout, err)
	}
}

// Throughout calls f again and again for as long as d, and fails the test with
// the first error it returns.
func Throughout(t T, d time.Duration, f func() error) {
	t.Helper()
	var broken error
	ended := poll(t.Context(), d, often, func() error {
		broken = f()
		if broken == nil {
			return errGoOn
		}
		return nil
	})
	if broken != nil {
		t.Fatalf("no longer so: %v", broken)
	}
	if ended != errGoOn { //nolint:errorlint // anything wrapped around it is an interruption
		t.Fatalf("look on for %s: %v", d, ended)
	}
}

var errGoOn = errors.New("nothing has happened")

// often is the pause between looks that must not miss anything.
func often(_, _ time.Duration) time.Duration { return pollEvery }

// seldom is the pause after so long a wait, of which the last look took so much.
func seldom(waited, took time.Duration) time.Duration {
	return max(min(max(pollEvery, waited/shareOf), pollSeldom), restOf*took)
}

// poll calls f until it returns nil, with pauses between.
func poll(ctx context.Context, timeout time.Duration, pauses func(waited, took time.Duration) time.Duration, f func() error) error {
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
		pause.Reset(pauses(waited, took))
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
