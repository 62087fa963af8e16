package readme

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/ports"
)

// shell is a bash in a directory of its own, with the binaries on its PATH, and with the
// examples as a checkout has them.
type shell struct {
	t     *testing.T
	dir   string
	hub   string // the address that stands for the one in README.md
	stdin io.Writer
	lines chan string
}

const (
	readmeAddress = "127.0.0.1:8443"
	endMark       = "<<<end of command>>>"
)

func startShell(t *testing.T) *shell {
	s := &shell{t: t, dir: t.TempDir(), hub: ports.Reserve(t), lines: make(chan string, 1000)}
	examples, err := filepath.Abs("../../../examples")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(examples, filepath.Join(s.dir, "examples")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "--norc")
	cmd.Dir = s.dir
	bin := filepath.Dir(env.Binary(t, "orrery"))
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG=")
	// The shell and all that it starts are one process group, which ends with the test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	if s.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			s.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		for syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) == nil { // until no process is left
			_ = cmd.Wait() // killed
			<-time.After(10 * time.Millisecond)
		}
		<-done
		_ = out.Close()
	})
	return s
}

// withTestAddress puts the address of the test into a command.
func (s *shell) withTestAddress(command string) string {
	return strings.ReplaceAll(command, readmeAddress, s.hub)
}

// withPageAddress puts the address of the page into the output of a command.
func (s *shell) withPageAddress(out string) string {
	return strings.ReplaceAll(out, s.hub, readmeAddress)
}

// run runs a command and returns what it printed.
func (s *shell) run(command string) string {
	s.t.Helper()
	if _, err := fmt.Fprintf(s.stdin, "%s\necho '%s'\n", command, endMark); err != nil {
		s.t.Fatalf("run %q: %v", command, err)
	}
	var out strings.Builder
	for {
		line := s.next(waitTimeout)
		if before, ok := strings.CutSuffix(line, endMark); ok {
			return out.String() + before
		}
		out.WriteString(line + "\n")
	}
}

// readLine reads one more line.
func (s *shell) readLine(timeout time.Duration) string {
	s.t.Helper()
	return s.next(timeout) + "\n"
}

func (s *shell) next(timeout time.Duration) string {
	s.t.Helper()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case line := <-s.lines:
		return line
	case <-timer.C:
		s.t.Fatalf("nothing was printed for %s", timeout)
		return ""
	}
}
