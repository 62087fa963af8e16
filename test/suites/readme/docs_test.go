package readme

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"orrery.dev/orrery/test/support/ports"
)

// TestDocs runs the commands in the sh blocks of docs/, docs/operations/, README.md, bench/README.md and CONTRIBUTING.md. It does
// not compare their output, which pages describe in prose. It fails if a command does not exist
// or fails.
func TestDocs(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"docs/*.md", "docs/operations/*.md", "README.md", "bench/README.md", "CONTRIBUTING.md"} {
		files, err := filepath.Glob("../../../" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no pages %s: %v", pattern, err)
		}
		pages = append(pages, files...)
	}
	d := startDocs(t)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range parse(string(text)) {
			switch b.language {
			case "sh":
				d.block(filepath.Base(page), b.text)
			case "yaml":
				d.file(b.text)
			}
		}
	}
}

// docs is a shell beside a hub that an administrator has just started.
type docs struct {
	t     *testing.T
	shell *shell
	// others counts the hubs that pages start.
	others int
}

func startDocs(t *testing.T) *docs {
	d := &docs{t: t, shell: startShell(t)}
	d.shell.run("export KUBECONFIG=orrery-data/admin.kubeconfig")
	d.hub("orrery hub --listen " + d.shell.hub + " --advertise https://" + d.shell.hub + " --advertise plant=https://localhost/orrery")
	return d
}

// hub runs a hub in the background, once it is ready.
func (d *docs) hub(command string) {
	d.t.Helper()
	d.shell.run(command + " &")
	line := d.shell.readLine(waitTimeout)
	for strings.HasPrefix(line, "time=") { // its log
		line = d.shell.readLine(waitTimeout)
	}
	if !strings.HasPrefix(line, "orrery hub ready") {
		d.t.Fatalf("%s: %s", command, line)
	}
}

// file writes a block that begins with the name of a file, for the commands behind it.
func (d *docs) file(text []string) {
	d.t.Helper()
	if name, ok := strings.CutPrefix(text[0], "# "); ok && strings.HasSuffix(name, ".yaml") && !strings.ContainsAny(name, " /'") {
		d.shell.run("cat > '" + name + "' <<'EOF'\n" + strings.Join(text, "\n") + "\nEOF")
	}
}

// block runs the commands of a block, which find a location berlin unless they
// make it themselves.
func (d *docs) block(page string, text []string) {
	d.t.Helper()
	if !slices.ContainsFunc(text, func(line string) bool { return strings.HasPrefix(line, "orrery location add berlin") }) {
		d.shell.run("orrery location add berlin")
	}
	for _, command := range commands(text) {
		d.run(page, command)
	}
	d.shell.run("orrery location remove berlin")
}

// commands joins lines that go on, and leaves out empty ones.
func commands(text []string) []string {
	joined := strings.ReplaceAll(strings.Join(text, "\n"), "\\\n", " ")
	return slices.DeleteFunc(strings.Split(joined, "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
}

var (
	// ofTheMoment matches commands that are refused unless something waits for them, with
	// exit code 1 or 3; test/suites/operator shows what they do then. Exit code 2, wrong usage,
	// fails the test.
	ofTheMoment = regexp.MustCompile(`^orrery (location (accept|confirm-prune|readmit)|placement confirm-prune)`)
	exitCode    = regexp.MustCompile(`# .*exit code (\d)`)
)

// dataDir is the data directory of a hub in the pages.
const dataDir = "/var/lib/orrery"

func (d *docs) run(page, command string) {
	d.t.Helper()
	switch program, _, _ := strings.Cut(command, " "); program {
	case "make": // long, and run by everybody: it has to exist
		d.expect(page, command, "make -n -C "+d.root()+" "+command[len("make "):], "0")
	case "go": // a program or test of ours, which takes long: it has to exist
		d.goCommand(page, command)
	case "helm": // run by test/suites/clients
	case "sed": // of the file of keys, which the hub has to take over
		d.expect(page, command, strings.ReplaceAll(command, dataDir, "orrery-data"), "0")
		d.expect(page, command, "for i in $(seq 1800); do kubectl --server https://"+d.shell.hub+" get --raw /metrics | grep -q '^orrery_encryption_config_changes_total 1' && exit 0; sleep 0.1; done; exit 1", "0")
	case "mv", "etcdutl": // of a restore, which test/suites/operator does
	case "orrery", "orrery-agent", "kubectl":
		if strings.HasPrefix(command, "orrery hub restore") {
			command = strings.Replace(command, dataDir, "restored", 1)
		} else if strings.HasPrefix(command, "orrery hub --") {
			d.others++
			command = strings.NewReplacer(
				dataDir, fmt.Sprint("other", d.others), "0.0.0.0:8443", ports.Reserve(d.t), "hub.example", "localhost",
				"/etc/orrery/plant-ca.pem", "orrery-data/ca.crt",
			).Replace(command)
			d.hub(command)
			return
		} else if strings.HasPrefix(command, "orrery hub rotate-ca") {
			// The hub has to take it over, and to write the operator's kubeconfig anew.
			d.expect(page, command, strings.ReplaceAll(command, dataDir, "orrery-data"), "0")
			d.expect(page, command, "for i in $(seq 1800); do kubectl config view --raw -o 'jsonpath={.clusters[0].cluster.certificate-authority-data}' | base64 -d | cmp -s - orrery-data/ca.crt && exit 0; sleep 0.1; done; exit 1", "0")
			d.shell.run("rm -f site.kubeconfig") // it has the former authority
			return
		}
		if strings.Contains(command, "--kubeconfig site.kubeconfig") {
			if strings.Contains(command, " exec ") { // in a Pod, as test/suites/incluster has it run
				command = "orrery-agent rbac configmaps > rights.yaml"
			}
			d.site()
		}
		command = strings.Replace(command, "https://hub.example:8443", "https://"+d.shell.hub, 1)
		want := "0"
		if m := exitCode.FindStringSubmatch(command); m != nil {
			want = m[1]
		}
		d.expect(page, command, command, want)
	default:
		d.t.Errorf("%s: %s: there is no rule for how to run this", page, command)
	}
}

// site makes site.kubeconfig, of an API that takes what a cluster's takes: a space.
func (d *docs) site() {
	d.t.Helper()
	d.shell.run("test -e site.kubeconfig || { orrery space create site; orrery space kubeconfig site > site.kubeconfig; }")
}

// runOf matches go run and go test, the module, the package, and the tests that are asked for.
var runOf = regexp.MustCompile(`^go (?:run|test)(?: -C (\S+)| -count=1| -race)* (\./\S+)(?:.* -run (\S+))?`)

func (d *docs) goCommand(page, command string) {
	d.t.Helper()
	match := runOf.FindStringSubmatch(command)
	if match == nil {
		d.t.Errorf("%s: %s: there is no rule for how to run this", page, command)
		return
	}
	dir, pkg, test := filepath.Join(d.root(), match[1]), match[2], match[3]
	d.expect(page, command, "go list -C "+dir+" "+pkg, "0")
	if test != "" {
		d.expect(page, command, "grep -qs '^func "+test+"(' "+filepath.Join(dir, pkg)+"/*_test.go", "0")
	}
}

func (d *docs) root() string {
	root, err := filepath.Abs("../../..")
	if err != nil {
		d.t.Fatal(err)
	}
	return root
}

// expect runs a command and compares how it exits.
func (d *docs) expect(page, command, run, want string) {
	d.t.Helper()
	// A comment ends with its line, in front of the parenthesis.
	out := strings.TrimSpace(d.shell.run("(" + run + "\n) </dev/null; code=$?; echo; echo $code"))
	code := out[strings.LastIndexByte(out, '\n')+1:]
	switch {
	case code == want:
	case ofTheMoment.MatchString(command) && (code == "1" || code == "3"):
	default:
		d.t.Errorf("%s: %s\nexits with %s, want %s:\n%s", page, command, code, want, out)
	}
}
