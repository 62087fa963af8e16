package kubectl

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"orrery.dev/orrery/test/support/env"
)

// soon bounds waiting on a busy machine.
const soon = env.Soon

// TestScripts runs each script in a space of its own, which has its name. They
// may use, beside what every testscript has:
//
//	shows FILE            compare the last standard output, but for times and the width of columns
//	follow FILE PROGRAM   run a program until the script ends, with its output in FILE
//	eventually FILE TEXT  wait until FILE has a text
//	givesup TEXT... kubectl ARG...  run kubectl with a timeout, which it must reach, until it prints the texts
func TestScripts(t *testing.T) {
	hub := env.StartHub(t, "--unsafe-no-fsync")
	bin := filepath.Dir(env.Binary(t, "kubectl"))
	// The scripts run after this function, but before its clean-up.
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_GOLDEN") != "",
		Setup: func(e *testscript.Env) error {
			t := e.T().(testing.TB) //nolint:forcetypeassert // that is what Run has made it of
			name := strings.ReplaceAll(filepath.Base(t.Name()), "_", "-")
			env.CreateSpace(t, hub.Kubeconfig, name)
			e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("KUBECONFIG", hub.PathKubeconfig("spaces/"+name))
			e.Setenv("ROOT", hub.Kubeconfig)
			e.Setenv("URL", hub.URL)
			e.Values[ofScript{}] = t
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"shows": shows, "follow": follow, "eventually": eventually, "givesup": givesUp,
		},
	})
}

// ofScript is the key of the test of a script.
type ofScript struct{}

// givesUp runs kubectl with growing timeouts until it prints all texts.
func givesUp(ts *testscript.TestScript, neg bool, args []string) {
	i := slices.Index(args, "kubectl")
	if neg || i < 1 {
		ts.Fatalf("usage: givesup TEXT... kubectl ARG...")
	}
	t := ts.Value(ofScript{}).(testing.TB) //nolint:forcetypeassert // that is what Setup has made it
	env.GivesUp(t, time.Second, func(timeout time.Duration) string {
		if err := ts.Exec("kubectl", append(slices.Clone(args[i+1:]), "--timeout="+timeout.String())...); err == nil {
			ts.Fatalf("it succeeds")
		}
		return ts.ReadFile("stdout") + ts.ReadFile("stderr")
	}, args[:i]...)
}

// shows compares the last standard output with a file.
func shows(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: shows FILE")
	}
	got, want := normal(ts.ReadFile("stdout")), normal(ts.ReadFile(args[0]))
	if got != want {
		ts.Fatalf("printed\n%s\nwant\n%s", got, want)
	}
}

// normal replaces the parts of an output that vary between runs.
func normal(out string) string {
	for _, r := range []struct{ is, becomes string }{
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "TIME"},
		{`[A-Z][a-z][a-z], \d\d [A-Z][a-z][a-z] \d{4} \d\d:\d\d:\d\d \+0000`, "TIME"},
		{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "UID"},
		{`resourceVersion: "\d+"`, "resourceVersion: N"},
		{`\b(\d+d|(\d+h)?(\d+m)?\d+s|(\d+h)?\d+m|\d+h)\b`, "AGE"},
		{`(LIVE|MERGED)-\d+`, "$1"},
		{`https://127.0.0.1:\d+`, "https://HUB"},
		{`[ \t]+`, " "},
		{`(?m) $`, ""},
	} {
		out = regexp.MustCompile(r.is).ReplaceAllString(out, r.becomes)
	}
	return strings.TrimSpace(out)
}

// follow runs a program until the script ends.
func follow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: follow FILE PROGRAM ARG...")
	}
	file, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	path, err := exec.LookPath(filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], args[1]))
	ts.Check(err)
	cmd := exec.Command(path, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"HOME=" + ts.Getenv("HOME"), "KUBECONFIG=" + ts.Getenv("KUBECONFIG"), "PATH=" + ts.Getenv("PATH")}
	cmd.Stdout, cmd.Stderr = file, file
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()
		_ = file.Close()
	})
}

// eventually waits until a file has a text. In it, as in shows, times do not matter.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: eventually FILE TEXT")
	}
	deadline := time.Now().Add(soon)
	for {
		err := contains(ts.MkAbs(args[0]), args[1])
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%v", err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func contains(file, text string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !strings.Contains(normal(string(content)), normal(text)) {
		return fmt.Errorf("%s does not contain %q:\n%s", file, text, content)
	}
	return nil
}
