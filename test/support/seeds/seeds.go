// Package seeds provides the random numbers of tests. They are the same in every run, unless an
// environment variable selects others:
//
//	ORRERY_SEED=fresh   a new seed for each test process
//	ORRERY_SEED=N       seed N alone, at least 1: replays a failure
//	ORRERY_SOAK=K       K times as many seeds, rounds and inputs
//
// A test that fails logs the command that replays it. A seed fixes the steps that a test takes. It
// does not fix how goroutines interleave.
//
// Packages of test/support that other modules import must not import this one, which needs rapid.
package seeds

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

const (
	seedVar, soakVar = "ORRERY_SEED", "ORRERY_SOAK"
	// standard is the seed of a run that selects no other. rapid draws a random seed for 0.
	standard = 1
	// checks is the number of inputs with which Check tests a property.
	checks = 100
	// minInputs is the smallest number of inputs after the division by raceDivisor.
	minInputs = 20
)

// Reduced returns how many of n inputs or steps this run has: all of them, or with the race detector
// a fifth, but at least minInputs. A test that calls it also runs without the race detector.
func Reduced(n int) int { return max(min(n, minInputs), n/raceDivisor) }

// settings are what the environment selects.
type settings struct {
	seed uint64
	// isFresh reports that this process drew the seed, isSingle that the environment names it.
	isFresh, isSingle bool
	// factor multiplies counts.
	factor int
	err    error
}

// current returns the settings of the process. The first test that needs them reads the environment.
// The test cache of the go command does not record variables that are read earlier, such as in init.
var current = sync.OnceValue(func() settings { return parse(os.Getenv(seedVar), os.Getenv(soakVar)) })

// parse returns the settings for the values of both variables.
func parse(seed, soak string) settings {
	s := settings{seed: standard, factor: 1}
	switch seed {
	case "":
	case "fresh":
		// 31 bits leave room for the seeds that follow, in every type of integer.
		s.seed, s.isFresh = uint64(1+rand.Int32N(math.MaxInt32-1)), true
	default:
		n, err := strconv.ParseUint(seed, 10, 62)
		if err == nil && n == 0 {
			err = errors.New("the seed must be at least 1")
		}
		if err != nil {
			s.err = fmt.Errorf("%s=%q: %w", seedVar, seed, err)
		}
		s.seed, s.isSingle = n, true
	}
	if soak != "" {
		n, err := strconv.Atoi(soak)
		if err == nil && n < 1 {
			err = errors.New("the factor must be at least 1")
		}
		if err != nil {
			s.err = errors.Join(s.err, fmt.Errorf("%s=%q: %w", soakVar, soak, err))
		}
		s.factor = n
	}
	return s
}

// mustRead returns the settings of the process, or fails the test.
func mustRead(t testing.TB) settings {
	t.Helper()
	s := current()
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s
}

// reporting holds the tests for which Base has registered a report.
var reporting sync.Map

// Base returns the seed of the run. If the test fails, it logs the command that replays it.
func Base(t testing.TB) uint64 {
	t.Helper()
	s := mustRead(t)
	if _, isRegistered := reporting.LoadOrStore(t, true); isRegistered {
		return s.seed
	}
	if s.isFresh {
		t.Logf("seed %d", s.seed) // a test that times out reports nothing else
	}
	t.Cleanup(func() {
		reporting.Delete(t)
		if t.Failed() {
			t.Log(replay(t.Name(), s.seed, s.factor))
		}
	})
	return s.seed
}

// Rand returns a generator for the seed of the run and a stream. Generators of different streams are
// independent: each goroutine, and each step of a schedule, takes its own. A generator must not be
// used by several goroutines at a time.
func Rand(t testing.TB, stream uint64) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Base(t), stream))
}

// All yields n times ORRERY_SOAK consecutive seeds (fewer with the race detector), or only the seed
// that ORRERY_SEED names. It stops after the first failing seed and logs its replay command. Parallel
// subtests each call All with their own t, and skip the seeds of other subtests.
func All(t testing.TB, n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		t.Helper()
		s := mustRead(t)
		if s.isFresh {
			t.Logf("seeds from %d", s.seed)
		}
		first := int(s.seed)
		end := first + Reduced(n)*s.factor
		if s.isSingle {
			end = first + 1
		}
		for seed := first; seed < end; seed++ {
			if !one(t, seed, s.factor, yield) || t.Failed() {
				return
			}
		}
	}
}

// one yields a seed. It reports in a deferred function, since synctest.Test and FailNow end the
// goroutine.
func one(t testing.TB, seed, factor int, yield func(int) bool) (more bool) {
	t.Helper()
	hasReturned := false
	defer func() {
		if !hasReturned || t.Failed() {
			t.Log(replay(t.Name(), uint64(seed), factor))
		}
	}()
	more = yield(seed)
	hasReturned = true
	return more
}

// Count returns n times ORRERY_SOAK, for numbers of rounds and inputs.
func Count(t testing.TB, n int) int {
	t.Helper()
	return n * mustRead(t).factor
}

// Check is rapid.Check with the seed of the run. It tests the property with 100
// inputs times ORRERY_SOAK; with the race detector, fewer (see Reduced). ORRERY_SEED accepts the seed
// that rapid reports.
func Check(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	Base(t)
	configure()
	rapid.Check(t, property)
}

// configure sets the flags of rapid before the first check. Flags of the command line have priority.
var configure = sync.OnceFunc(func() {
	isGiven := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { isGiven[f.Name] = true })
	s := current()
	for _, f := range [][2]string{
		{"rapid.seed", strconv.FormatUint(s.seed, 10)},
		{"rapid.checks", strconv.Itoa(Reduced(checks) * s.factor)},
		{"rapid.nofailfile", "true"}, // a seed is enough
	} {
		if isGiven[f[0]] {
			continue
		}
		if err := flag.Set(f[0], f[1]); err != nil {
			panic(err)
		}
	}
})

// Ordered returns the entries of a map by ascending key. Tests use it where the order decides what
// happens, since the order of maps is random in every run.
func Ordered[K cmp.Ordered, V any](m map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if v, ok := m[k]; ok && !yield(k, v) { // the caller may delete entries meanwhile
				return
			}
		}
	}
}
