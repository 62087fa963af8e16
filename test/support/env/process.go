package env

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"orrery.dev/orrery/test/support/limit"
)

// tailLines is how much of each log a failed test shows.
const tailLines = 40

// Process is a part of the system under test, run as a child of the test. It is
// used by one goroutine at a time.
type Process struct {
	t      T
	name   string
	binary string
	env    []string
	within []string // a command that runs another one
	stdout string
	stderr string
	clock  string // the file that says by how much its own wall clock is moved
	// isAltered is set when the process no longer runs as it was described first.
	isAltered bool

	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has been waited for
}

// newProcess describes a process that writes NAME.out and NAME.log in dir, across
// restarts. It is killed when the test ends, and the end of its log is shown if
// the test failed.
func newProcess(t T, name, binary, dir string) *Process {
	t.Helper()
	return processOf(t, name, Binary(t, binary), dir)
}

// processOf is newProcess of a program that is not one of ours.
func processOf(t T, name, path, dir string) *Process {
	t.Helper()
	p := &Process{
		t:      t,
		name:   name,
		binary: path,
		// HOME keeps what a user of this machine has configured out of the test.
		env:    append(os.Environ(), "HOME="+dir, "KUBECONFIG="),
		stdout: filepath.Join(dir, name+".out"),
		stderr: filepath.Join(dir, name+".log"),
	}
	t.Cleanup(p.end)
	return p
}

// end kills the process, and shows the end of its log if the test failed.
func (p *Process) end() {
	p.Kill()
	if p.t.Failed() {
		p.t.Logf("--- end of %s's log:\n%s", p.name, tail(p.stderr))
	}
}

// start runs the binary with args. It must not be running.
func (p *Process) start(args ...string) {
	p.t.Helper()
	if p.Running() {
		p.t.Fatalf("start %s: it is running", p.name)
	}
	stdout, err := openLog(p.stdout)
	if err != nil {
		p.t.Fatalf("start %s: %v", p.name, err)
	}
	defer stdout.Close()
	stderr, err := openLog(p.stderr)
	if err != nil {
		p.t.Fatalf("start %s: %v", p.name, err)
	}
	defer stderr.Close()

	command := append(append(slices.Clone(p.within), p.binary), args...)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, stdout, stderr
	if err := startWithUs(cmd); err != nil {
		p.t.Fatalf("start %s: %v", p.name, err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() {
		defer close(done)
		_ = cmd.Wait() // the outcome is read from ProcessState
	}()
}

// Setenv adds variables, each NAME=VALUE, to what the process sees from its next
// start.
func (p *Process) Setenv(variables ...string) {
	p.env, p.isAltered = append(p.env, variables...), true // the last one of a name counts
}

// Use has the process run another binary, a name in .bin, from its next start.
func (p *Process) Use(binary string) {
	p.t.Helper()
	p.binary, p.isAltered = Binary(p.t, binary), true
}

// Running reports whether the process was started and has not ended.
func (p *Process) Running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends s, for example SIGSTOP to a process that is to hang.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if !p.Running() {
		p.t.Fatalf("signal %s: it is not running", p.name)
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %s: %v", p.name, err)
	}
}

// Kill ends the process by SIGKILL and waits for it. It may have ended before.
func (p *Process) Kill() {
	if p.Running() {
		_ = p.cmd.Process.Kill() // it may end by itself in between
		<-p.done
	}
}

// Stop ends the process by SIGTERM; the test fails unless it exits with code 0
// within the time that a clean stop may take.
func (p *Process) Stop() {
	p.t.Helper()
	if err := p.stop(); err != nil {
		p.t.Errorf("%v", err)
	}
}

// stop is Stop, and returns why the end was not clean.
func (p *Process) stop() error {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	code, ended := p.Wait(limit.Wait)
	switch {
	case !ended:
		p.Kill()
		return fmt.Errorf("stop %s: it was still running after %s\n%s", p.name, limit.Wait, tail(p.stderr))
	case code != 0:
		return fmt.Errorf("stop %s: exit code %d\n%s", p.name, code, tail(p.stderr))
	}
	return nil
}

// Wait waits for the process to end by itself and returns its exit code, -1 when
// a signal ended it.
func (p *Process) Wait(timeout time.Duration) (code int, ended bool) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), true
	case <-timer.C:
		return 0, false
	}
}

// Stdout returns what the process has written to its standard output so far,
// over all its starts.
func (p *Process) Stdout() string {
	p.t.Helper()
	return p.read(p.stdout)
}

// Stderr returns what the process has written to its standard error so far, over
// all its starts.
func (p *Process) Stderr() string {
	p.t.Helper()
	return p.read(p.stderr)
}

func (p *Process) read(path string) string {
	p.t.Helper()
	out, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatalf("read the output of %s: %v", p.name, err)
	}
	return string(out)
}

// waitLine waits for one more complete line on standard output than there were
// in before, and returns it; a program that starts may take startTimeout for it.
func (p *Process) waitLine(before int) string {
	p.t.Helper()
	var line string
	Eventually(p.t, startTimeout, func() error {
		lines := strings.SplitAfter(p.Stdout(), "\n")
		if len(lines) > before && strings.HasSuffix(lines[before], "\n") {
			line = strings.TrimSuffix(lines[before], "\n")
			return nil
		}
		if !p.Running() {
			p.t.Fatalf("%s ended before it was ready: %s\n%s", p.name, p.cmd.ProcessState, tail(p.stderr))
		}
		return fmt.Errorf("%s has not printed its ready line\n%s", p.name, tail(p.stderr))
	})
	return line
}

func (p *Process) lines() int {
	if _, err := os.Stat(p.stdout); err != nil {
		return 0
	}
	return strings.Count(p.Stdout(), "\n")
}

func openLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

func tail(path string) string {
	log, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimRight(log, "\n"), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")))
}

// startWithUs starts cmd so that the kernel kills it when this process dies.
func startWithUs(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	result := make(chan error)
	starter() <- func() { result <- cmd.Start() }
	return <-result
}

// starter is a goroutine on a thread of its own that never ends: to the kernel the
// parent whose death kills a child is the thread that started it.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})
