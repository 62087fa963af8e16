package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/internal/agent/cli"
	"orrery.dev/orrery/test/support/limit"
)

// The scripts run the real command line, each command in its own process.
func TestMain(m *testing.M) {
	orrery := func() int {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return Main(ctx, os.Args, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	}
	programs := map[string]func(){}
	for name, run := range map[string]func() int{
		"orrery": orrery, "kubectl-orrery": orrery,
		"orrery-agent": exitBy(func(ctx context.Context) error { return cli.New("test").ExecuteContext(ctx) }),
		"apply":        exitBy(func(ctx context.Context) error { return apply(ctx, os.Args[1]) }),
		"id":           exitBy(func(context.Context) error { return printID(os.Args[1]) }),
		"revoke":       func() int { return revoke(orrery) },
	} {
		programs[name] = func() { os.Exit(run()) }
	}
	testscript.Main(m, programs)
}

func exitBy(f func(context.Context) error) func() int {
	return func() int {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := f(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
}

// tokenID matches the ID in the text of a token.
var tokenID = regexp.MustCompile(`orr_t_([a-z2-7]+)`)

// printID prints the ID of the token in a file.
func printID(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	found := tokenID.FindSubmatch(text)
	if found == nil {
		return fmt.Errorf("no token in %q", file)
	}
	_, err = fmt.Println(string(found[1]))
	return err
}

// revoke revokes the token whose ID is in a file.
func revoke(orrery func() int) int {
	id, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return ExitError
	}
	os.Args = []string{"orrery", "token", "revoke", strings.TrimSpace(string(id))}
	return orrery()
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[started{}] = map[string]*running{}
			env.Setenv("TIMEOUT", limit.Wait.String())
			env.Setenv("GORACE", "atexit_sleep_ms=0") // without it, a program with the race detector takes a second to end
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      exits,
			"timesout":   timesOut,
			"start":      start,
			"terminate":  terminate,
			"eventually": eventually,
			"address":    address,
		},
	})
}

// exits CODE PROGRAM ARG... runs a program, whose exit code must be CODE.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var ended *exec.ExitError
		if !errors.As(err, &ended) {
			ts.Fatalf("%v", err)
		}
		got = ended.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// timesout CODE REGEXP PROGRAM ARG... runs a program whose --timeout ends before its work is done.
// The timeout starts at one second and doubles until standard error matches. The exit code must be
// CODE.
func timesOut(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile("(?m)" + args[1])
	for timeout := time.Second; ; timeout *= 2 {
		all := append(slices.Clone(args[3:]), "--timeout="+timeout.String())
		err := ts.Exec(args[2], all...)
		if want.MatchString(ts.ReadFile("stderr")) {
			var ended *exec.ExitError
			if !errors.As(err, &ended) || fmt.Sprint(ended.ExitCode()) != args[0] {
				ts.Fatalf("%v, want exit code %s", err, args[0])
			}
			return
		}
		if timeout > limit.Wait {
			ts.Fatalf("the standard error does not match %q within %s: %v", args[1], timeout, err)
		}
	}
}

// eventually REGEXP PROGRAM ARG... runs a program repeatedly until its standard output matches, and
// then once more as exec does.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	want := regexp.MustCompile("(?m)" + args[0])
	deadline := time.Now().Add(limit.Wait)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		out, err := program(ts, args[1:]).Output()
		if want.Match(out) != neg {
			ts.Check(ts.Exec(args[1], args[2:]...))
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("the output did not come to match %q: %v\n%s", args[0], err, out)
		}
		<-tick.C
	}
}

// program returns a command in the script's directory and environment.
func program(ts *testscript.TestScript, args []string) *exec.Cmd {
	dir, path := ts.Getenv("WORK"), args[0]
	for _, d := range filepath.SplitList(ts.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(d, args[0])); err == nil {
			path = filepath.Join(d, args[0])
			break
		}
	}
	cmd := exec.Command(path, args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "KUBECONFIG="+ts.Getenv("KUBECONFIG"))
	return cmd
}

// started is the key of the programs that a script has started, by name.
type started struct{}

// running is a started program.
type running struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func processes(ts *testscript.TestScript) map[string]*running {
	return ts.Value(started{}).(map[string]*running)
}

// start NAME PROGRAM ARG... starts a program and waits for its first line on standard output, which
// it writes to the file NAME.ready. An argument @FILE is replaced by the content of the file.
func start(ts *testscript.TestScript, _ bool, args []string) {
	name, dir := args[0], ts.Getenv("WORK")
	for i, arg := range args {
		if file, ok := strings.CutPrefix(arg, "@"); ok {
			args[i] = strings.TrimSpace(ts.ReadFile(file))
		}
	}
	cmd := program(ts, args[1:])
	log, err := os.Create(filepath.Join(dir, name+".log"))
	ts.Check(err)
	defer log.Close()
	out := &firstLine{found: make(chan string, 1)}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, log, 5*time.Second
	ts.Check(cmd.Start())
	p := &running{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // the outcome is read from ProcessState
	}()
	processes(ts)[name] = p
	ts.Defer(func() {
		_ = cmd.Process.Kill() // it may have ended already
		<-p.done
	})
	timer := time.NewTimer(limit.Wait)
	defer timer.Stop()
	select {
	case line := <-out.found:
		ts.Check(os.WriteFile(filepath.Join(dir, name+".ready"), []byte(line), 0o600))
	case <-p.done:
		ts.Fatalf("%s ended: %s", name, ts.ReadFile(name+".log"))
	case <-timer.C:
		ts.Fatalf("%s is not ready after %s: %s", name, limit.Wait, ts.ReadFile(name+".log"))
	}
}

// firstLine is a writer that sends the first line to a channel.
type firstLine struct {
	written []byte
	done    bool
	found   chan string
}

func (f *firstLine) Write(p []byte) (int, error) {
	if !f.done {
		f.written = append(f.written, p...)
		if line, _, ok := strings.Cut(string(f.written), "\n"); ok {
			f.found <- line
			f.done = true
		}
	}
	return len(p), nil
}

// terminate NAME ends a program by SIGTERM; it must end with exit code 0.
func terminate(ts *testscript.TestScript, _ bool, args []string) {
	p := processes(ts)[args[0]]
	ts.Check(p.cmd.Process.Signal(syscall.SIGTERM))
	timer := time.NewTimer(limit.Wait)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		ts.Fatalf("%s still runs after %s", args[0], limit.Wait)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		ts.Fatalf("%s ended with exit code %d", args[0], code)
	}
}

// address VARIABLE reserves an address until the script ends, and sets an environment variable to
// it.
func address(ts *testscript.TestScript, _ bool, args []string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = listener.Close() })
	ts.Setenv(args[0], listener.Addr().String())
}

// apply applies the objects of a file server-side, as kubectl would.
func apply(ctx context.Context, file string) error {
	c := newConnection(true)
	text, err := os.Open(file)
	if err != nil {
		return err
	}
	defer text.Close()
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	kinds, err := c.flags.ToRESTMapper()
	if err != nil {
		return err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(text, 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		mapping, err := kinds.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
		if err != nil {
			return err
		}
		var objects dynamic.ResourceInterface = client.Resource(mapping.Resource)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			objects = client.Resource(mapping.Resource).Namespace(o.GetNamespace())
		}
		if _, err := objects.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			return err
		}
	}
}
