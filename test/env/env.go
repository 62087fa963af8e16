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
)

// Eventually calls f until it returns nil, and fails the test with its last
// error when timeout passes first.
func Eventually(t T, timeout time.Duration, f func() error) {
	t.Helper()
	if err := poll(t.Context(), timeout, pollSeldom, f); err != nil {
		t.Fatalf("not so after %s: %v", timeout, err)
	}
}

// Throughout calls f again and again for as long as d, and fails the test with
// the first error it returns.
func Throughout(t T, d time.Duration, f func() error) {
	t.Helper()
	var broken error
	ended := poll(t.Context(), d, pollEvery, func() error {
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

// poll calls f until it returns nil, with pauses that grow to seldom.
func poll(ctx context.Context, timeout, seldom time.Duration, f func() error) error {
	pause := time.NewTimer(timeout)
	defer pause.Stop()
	start := time.Now()
	for {
		err := f()
		waited := time.Since(start)
		if err == nil || waited > timeout {
			return err
		}
		pause.Reset(min(max(pollEvery, waited/shareOf), seldom))
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
		t.Fatalf("%s is not built (run `make build kube`): %v", name, err)
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
