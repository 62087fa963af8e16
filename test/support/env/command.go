package env

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"orrery.dev/orrery/test/support/limit"
)

// commandTimeout is the timeout of a command.
const commandTimeout = 15 * time.Minute

// Command is a call of a built binary that ends by itself.
type Command struct {
	// Binary is the name of a file in .bin, and Args are the arguments.
	Binary string
	Args   []string
	// Kubeconfig is the value of KUBECONFIG. Commands have no other configuration.
	Kubeconfig string
	Stdin      string
}

// Try runs the command and returns its standard output. The error is a *CommandError.
func (c Command) Try(t T) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary(t, c.Binary), c.Args...)
	home := filepath.Dir(c.Kubeconfig) // kubectl's cache is deleted with the kubeconfig
	// A quarter of the processor time of kubectl is garbage collection, in a process that soon ends.
	cmd.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG="+c.Kubeconfig, "GOGC=off", "GOMEMLIMIT=256MiB")
	cmd.Stdin = strings.NewReader(c.Stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), &CommandError{Command: c.Binary + " " + strings.Join(c.Args, " "), Stderr: stderr.String(), Err: err}
	}
	return stdout.String(), nil
}

// Run runs the command, which must succeed, and returns its standard output.
func (c Command) Run(t T) string {
	t.Helper()
	out, err := c.Try(t)
	if err != nil {
		t.Fatalf("%v%s", err, out)
	}
	return out
}

// Fails runs the command, which must fail, and returns its standard error.
func (c Command) Fails(t T) string {
	t.Helper()
	out, err := c.Try(t)
	if err == nil {
		t.Fatalf("%s %s should have failed\n%s", c.Binary, strings.Join(c.Args, " "), out)
	}
	_, stderr, _ := strings.Cut(err.Error(), "\n")
	return stderr
}

// Kubectl runs kubectl, which must succeed, and returns its standard output.
func Kubectl(t T, kubeconfig string, args ...string) string {
	t.Helper()
	return Command{Binary: "kubectl", Kubeconfig: kubeconfig, Args: args}.Run(t)
}

// KubectlIn is Kubectl with a standard input.
func KubectlIn(t T, kubeconfig, stdin string, args ...string) string {
	t.Helper()
	return Command{Binary: "kubectl", Kubeconfig: kubeconfig, Args: args, Stdin: stdin}.Run(t)
}

// KubectlFails runs kubectl, which must fail, and returns its standard error.
func KubectlFails(t T, kubeconfig string, args ...string) string {
	t.Helper()
	return Command{Binary: "kubectl", Kubeconfig: kubeconfig, Args: args}.Fails(t)
}

// TryKubectl runs kubectl, for use in Eventually.
func TryKubectl(t T, kubeconfig string, args ...string) (string, error) {
	t.Helper()
	return Command{Binary: "kubectl", Kubeconfig: kubeconfig, Args: args}.Try(t)
}

// StartKubectl runs kubectl until the test ends, for watches. Stdout of the process has its output so
// far.
func StartKubectl(t T, kubeconfig string, args ...string) *Process {
	t.Helper()
	p := newProcess(t, "kubectl", "kubectl", t.TempDir())
	p.start(append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
	return p
}

// Orrery runs the command line, which must succeed, and returns its standard
// output.
func Orrery(t T, kubeconfig string, args ...string) string {
	t.Helper()
	return Command{Binary: "orrery", Kubeconfig: kubeconfig, Args: args}.Run(t)
}

// CreateSpace creates a space by the command line, which waits until the space is served.
func CreateSpace(t T, kubeconfig, name string) {
	t.Helper()
	Orrery(t, kubeconfig, "space", "create", name, limit.Flag())
}

// OrreryFails runs the command line, which must fail, and returns its standard
// error.
func OrreryFails(t T, kubeconfig string, args ...string) string {
	t.Helper()
	return Command{Binary: "orrery", Kubeconfig: kubeconfig, Args: args}.Fails(t)
}

// StartProgram runs a binary of .bin until the test ends, and returns its first line.
func StartProgram(t T, binary string, args ...string) string {
	t.Helper()
	p := newProcess(t, binary, binary, t.TempDir())
	p.start(args...)
	return p.waitLine(0)
}

// StartController runs a binary of .bin with a kubeconfig until the test ends.
func StartController(t T, binary, kubeconfig string, args ...string) *Process {
	t.Helper()
	p := newProcess(t, binary, binary, t.TempDir())
	p.Setenv("KUBECONFIG=" + kubeconfig)
	p.start(args...)
	return p
}
