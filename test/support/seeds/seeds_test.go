package seeds

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// failVar makes the tests named Fail… fail. TestReports runs them in processes of their own.
const failVar = "ORRERY_TEST_SEEDS"

// run runs one test of this package in another process, and returns its output.
func run(t *testing.T, test string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^"+test+"$")
	cmd.Env = slices.Concat(os.Environ(), []string{seedVar + "=", soakVar + "=", failVar + "=1"}, env)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("%s with %v did not fail:\n%s", test, env, out)
	}
	return string(out)
}

// TestReports checks the command that a failed test logs, for each way to fail.
func TestReports(t *testing.T) {
	for _, c := range []struct {
		test, want string
		env        []string
	}{
		{test: "TestFailBase", want: `replay: ORRERY_SEED=1 go test ./test/support/seeds -run '^TestFailBase$'`},
		{test: "TestFailBase", want: `replay: ORRERY_SEED=7 ORRERY_SOAK=3 go test ./test/support/seeds -run '^TestFailBase$'`, env: []string{"ORRERY_SEED=7", "ORRERY_SOAK=3"}},
		{test: "TestFailBubble", want: `replay: ORRERY_SEED=3 go test ./test/support/seeds -run '^TestFailBubble$'`},
		{test: "TestFailBubble", want: `replay: ORRERY_SEED=12 go test ./test/support/seeds -run '^TestFailBubble$'`, env: []string{"ORRERY_SEED=12"}},
		{test: "TestFailBubble", want: `ORRERY_SOAK="0": the factor must be at least 1`, env: []string{"ORRERY_SOAK=0"}},
		{test: "TestFailBubble", want: `ORRERY_SEED="0": the seed must be at least 1`, env: []string{"ORRERY_SEED=0"}},
		{test: "TestFailPlayer", want: `replay: ORRERY_SEED=4 go test ./test/support/seeds -run '^TestFailPlayer$/^a\.b$'`},
		{test: "TestFailPanic", want: `replay: ORRERY_SEED=2 go test ./test/support/seeds -run '^TestFailPanic$'`},
		{test: "TestFailCheck", want: `replay: ORRERY_SEED=1 go test ./test/support/seeds -run '^TestFailCheck$'`},
		{test: "TestFailCheck", want: "-rapid.seed=5\n", env: []string{"ORRERY_SEED=5"}},
	} {
		flags := buildFlags() // the race detector's may be among them
		want := strings.Replace(c.want, "go test ", "go test "+flags, 1)
		out := run(t, c.test, c.env...)
		if n := strings.Count(out, want); n != 1 {
			t.Errorf("%s with %v logs %q %d times:\n%s", c.test, c.env, want, n, out)
		}
	}
	if _, err := os.Stat("testdata"); !os.IsNotExist(err) {
		t.Errorf("a failed check left files: %v", err)
	}
}

// TestFresh checks that two processes draw different seeds and report them.
func TestFresh(t *testing.T) {
	report := regexp.MustCompile(`seeds from (\d+)\n`)
	one, two := report.FindStringSubmatch(run(t, "TestFailBubble", "ORRERY_SEED=fresh")), report.FindStringSubmatch(run(t, "TestFailBubble", "ORRERY_SEED=fresh"))
	if one == nil || two == nil || one[1] == two[1] {
		t.Errorf("the seeds are reported as %q and %q", one, two)
	}
}

// fail calls f if this process is one of TestReports.
func fail(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if os.Getenv(failVar) != "" {
		f(t)
	}
}

func TestFailBase(t *testing.T) {
	fail(t, func(t *testing.T) {
		t.Error(Rand(t, 1).IntN(10), Rand(t, 2).IntN(10))
	})
}

func TestFailBubble(t *testing.T) {
	fail(t, func(t *testing.T) {
		for seed := range All(t, 5) {
			synctest.Test(t, func(t *testing.T) {
				if seed >= 3 {
					t.Fatal("failed")
				}
			})
		}
	})
}

func TestFailPlayer(t *testing.T) {
	fail(t, func(t *testing.T) {
		for _, name := range []string{"a.b", "c"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for seed := range All(t, 5) {
					if seed == 4 && name == "a.b" {
						t.Error("failed")
					}
				}
			})
		}
	})
}

func TestFailPanic(t *testing.T) {
	fail(t, func(t *testing.T) {
		for seed := range All(t, 5) {
			if seed == 2 {
				panic("failed")
			}
		}
	})
}

func TestFailCheck(t *testing.T) {
	fail(t, func(t *testing.T) {
		Check(t, func(t *rapid.T) { t.Fatal(rapid.Int().Draw(t, "n")) })
	})
}

// TestSettings checks what each value of the variables selects.
func TestSettings(t *testing.T) {
	for _, c := range []struct {
		seed, soak string
		want       settings
		isError    bool
	}{
		{want: settings{seed: 1, factor: 1}},
		{seed: "7", soak: "3", want: settings{seed: 7, isSingle: true, factor: 3}},
		{seed: "0", isError: true},
		{seed: "-1", isError: true},
		{seed: "some", isError: true},
		{soak: "0", isError: true},
		{soak: "x", isError: true},
	} {
		got := parse(c.seed, c.soak)
		if isError := got.err != nil; isError != c.isError || !isError && got != c.want {
			t.Errorf("%q and %q select %+v", c.seed, c.soak, got)
		}
	}
	if s := parse("fresh", ""); s.err != nil || !s.isFresh || s.isSingle || s.seed < 1 || s.seed >= 1<<31 {
		t.Errorf("fresh selects %+v", s)
	}
}

// TestStreams checks that a stream is the same each time and differs from others.
func TestStreams(t *testing.T) {
	if a, b := Rand(t, 1).Uint64(), Rand(t, 1).Uint64(); a != b {
		t.Errorf("one stream gives %d and %d", a, b)
	}
	if Rand(t, 1).Uint64() == Rand(t, 2).Uint64() {
		t.Error("two streams are equal")
	}
}

// TestCheckRepeats checks that two checks of one process draw the same inputs.
func TestCheckRepeats(t *testing.T) {
	inputs := func() (all []int) {
		Check(t, func(t *rapid.T) { all = append(all, rapid.Int().Draw(t, "n")) })
		return all
	}
	a, b := inputs(), inputs()
	if !slices.Equal(a, b) {
		t.Error("the inputs differ")
	}
	if want := Count(t, checks); len(a) != want {
		t.Errorf("there are %d inputs, want %d", len(a), want)
	}
}
