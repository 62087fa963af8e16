package env

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// startProxy starts `kubectl proxy`, which prints one line when it is ready, and whose exit code after
// SIGTERM is not 0.
func startProxy(t T) *Process {
	t.Helper()
	p := newProcess(t, "proxy", "kubectl", t.TempDir())
	p.start("proxy", "--port=0")
	return p
}

func TestProcessRestarts(t *testing.T) {
	p := startProxy(t)
	first := p.waitLine(0)
	p.Kill()
	if p.Running() {
		t.Fatal("it runs after Kill")
	}
	p.Kill() // again has no effect
	before := p.lines()
	p.start("proxy", "--port=0")
	second := p.waitLine(before)
	for _, line := range []string{first, second} {
		if !strings.HasPrefix(line, "Starting to serve on ") {
			t.Errorf("the ready line is %q", line)
		}
	}
	if p.lines() != 2 {
		t.Errorf("output is %q", p.Stdout())
	}
}

func TestStopWantsACleanExit(t *testing.T) {
	err := Main("stop", func(t T) {
		p := startProxy(t)
		p.waitLine(0)
		p.Stop()
	})
	if err == nil {
		t.Error("a process that a signal ended counts as stopped cleanly")
	}
}

func TestEndingTooEarlyIsReported(t *testing.T) {
	err := Main("early", func(t T) {
		p := newProcess(t, "proxy", "kubectl", t.TempDir())
		p.start("proxy", "--no-such-flag")
		p.waitLine(0)
	})
	if err == nil {
		t.Error("a process that ended at once counts as ready")
	}
}

// victim is the environment variable that makes this binary start a process, print its ID and wait to be
// killed.
const victim = "ORRERY_ENV_VICTIM"

func TestProcessesEndWithTheTest(t *testing.T) {
	if os.Getenv(victim) != "" {
		p := startProxy(t)
		p.waitLine(0)
		fmt.Printf("pid %d\n", p.cmd.Process.Pid)
		<-t.Context().Done() // never: this process is killed
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestProcessesEndWithTheTest$")
	cmd.Env = append(os.Environ(), victim+"=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := startWithUs(cmd); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "pid "); ok {
			if pid, err = strconv.Atoi(text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !alive(pid) {
		t.Fatalf("the process %d of the victim does not run", pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the victim ended well")
	}
	Eventually(t, Soon, func() error {
		if alive(pid) {
			return errors.New("the process outlives the test")
		}
		return nil
	})
}

// alive reports whether a process runs. A zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// TestAgentThatGivesUpAStop shows that mostLateStops stops of agents, of all agents of a test process, may
// take longer than the agent's own limit.
func TestAgentThatGivesUpAStop(t *testing.T) {
	for _, test := range []struct {
		prints string
		times  int
		fails  bool
	}{
		{gaveUp + "10s", mostLateStops, false},
		{gaveUp + "10s", mostLateStops + 1, true},
		{"the store is broken", 1, true},
		{gaveUp + "10s\nthe store is broken", 1, true},
	} {
		err := Main("stop", func(t T) {
			var late atomic.Int32
			for i := range test.times {
				a := &Agent{Process: processOf(t, fmt.Sprint("agent-", i), "/bin/sh", t.TempDir()), t: t, late: &late}
				before := a.lines()
				a.start("-c", fmt.Sprintf("trap 'printf %%b\\\\n %q >&2; exit 1' TERM; echo ready; while :; do sleep 0.01; done", test.prints))
				a.waitLine(before)
				a.Stop()
			}
		})
		if fails := err != nil; fails != test.fails {
			t.Errorf("stopped %d times with %q: fails is %t, want %t", test.times, test.prints, fails, test.fails)
		}
	}
}
