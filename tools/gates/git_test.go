package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// git runs git in the repository, without the configuration of the machine.
func (r *repository) git(args ...string) {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.root, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
	cmd.Env = append(gitEnvironment(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// init makes the repository a git repository with a first commit.
func (r *repository) init() {
	r.t.Helper()
	r.git("init", "-q", "-b", "main")
	r.commit("area: start")
}

func (r *repository) commit(title string) {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", title)
}

func commitTitles(t *testing.T, root string) []string {
	t.Helper()
	r, err := measureCommits(newTree(root))
	if err != nil {
		t.Fatal(err)
	}
	if r.skipped != "" {
		return []string{r.skipped}
	}
	var found []string
	for _, s := range r.subjects {
		found = append(found, texts(s.findings)...)
	}
	return found
}

func TestCommits(t *testing.T) {
	r := newRepository(t)
	r.git("init", "-q", "-b", "main")
	r.commit("What came before does not count")
	nothing := []string{"nothing to check: no commit adds " + firstFile}
	if got := commitTitles(t, r.root); !slices.Equal(got, nothing) {
		t.Errorf("before %s: %q", firstFile, got)
	}
	r.write(firstFile, "package main\n")
	r.commit("The first one counts")
	r.commit("hub: reject requests during shutdown")
	r.git("checkout", "-q", "-b", "side")
	r.commit("agent: fixing it")
	r.git("checkout", "-q", "main")
	r.git("merge", "-q", "--no-ff", "-m", "Merge side", "side")
	want := []string{
		`"agent: fixing it" has "fixing" after the area, which is no imperative`,
		`"The first one counts" has not the form "area: imperative", with the area in small letters`,
	}
	if got := commitTitles(t, r.root); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	r.fails("commits: ", want[0], "reword the commit")
}

func TestTitleReason(t *testing.T) {
	for title, want := range map[string]string{
		"hub: reject requests":                     "",
		"internal/hub, docs: feed the log":         "",
		"test_util: bring it back":                 "",
		"area: " + strings.Repeat("a", 66):         "",
		"area: " + strings.Repeat("ä", 66):         "",
		"area: " + strings.Repeat("a", 67):         "has 73 characters, more than 72",
		"Hub: reject requests":                     "has not the form",
		"hub:reject requests":                      "has not the form",
		"hub: ":                                    "has not the form",
		"reject requests":                          "has not the form",
		"hub: rejected requests":                   `has "rejected" after the area`,
		"hub: rejecting requests":                  `has "rejecting" after the area`,
		"hub: Rejects":                             "",
		"hub: The requests":                        `has "The" after the area`,
		"hub: adds a check":                        `has "adds" after the area`,
		"hub: what is rejected":                    `has "what" after the area`,
		`Revert "hub: reject requests"`:            `write "area: revert ..."`,
		`Reapply "hub: reject requests"`:           `write "area: reapply ..."`,
		`Revert "` + strings.Repeat("a", 80) + `"`: `write "area: revert ..."`,
		"hub: revert \"reject requests\"":          "",
	} {
		if got := titleReason(title); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", title, got, want)
		}
	}
}

func TestHistoryIsRequiredInCI(t *testing.T) {
	whole := newRepository(t)
	whole.write(firstFile, "package main\n")
	whole.write(historyFile, "package main\n")
	whole.init()
	whole.commit("area: go on")
	shallow := &repository{t, filepath.Join(t.TempDir(), "clone")}
	whole.git("clone", "-q", "--depth", "1", "file://"+whole.root, shallow.root)
	within := &repository{t, filepath.Join(whole.root, "internal")}
	empty := newRepository(t)
	empty.git("init", "-q")
	for name, test := range map[string]struct {
		*repository
		want string
	}{
		"whole":          {whole, ""},
		"shallow":        {shallow, "the clone is shallow"},
		"no git":         {newRepository(t), "not a git repository"},
		"without commit": {empty, "there is no commit"},
		"within another": {within, "is a folder of another git checkout"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, measure := range []func(*tree) (result, error){measureCommits, measureHistory} {
				tree := newTree(test.root)
				if r, err := measure(tree); err != nil || !strings.Contains(r.skipped, test.want) || (r.skipped == "") != (test.want == "") {
					t.Errorf("skipped: %q, %v, want %q", r.skipped, err, test.want)
				}
				tree.isCI = true
				switch _, err := measure(tree); {
				case test.want == "" && err != nil:
					t.Errorf("in CI: %v", err)
				case test.want == "":
				case err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "git fetch --unshallow"):
					t.Errorf("in CI: error %v, want %q", err, test.want)
				}
			}
		})
	}
	if passed, _, problems := shallow.run(options{isCI: true}); passed || !strings.Contains(problems, "commits: not measured: the clone is shallow") {
		t.Errorf("shallow clone in CI:\n%s", problems)
	}
}

// In a hook, git sets variables that lead to another index.
func TestGitIgnoresTheEnvironment(t *testing.T) {
	r := newRepository(t)
	r.write(firstFile, "package main\n")
	r.init()
	other := newRepository(t)
	other.init()
	for name, value := range map[string]string{
		"GIT_DIR": filepath.Join(other.root, ".git"), "GIT_WORK_TREE": other.root,
		"GIT_INDEX_FILE": filepath.Join(other.root, "none"), "GIT_PREFIX": "internal/",
	} {
		t.Setenv(name, value)
	}
	if got := commitTitles(t, r.root); len(got) > 0 {
		t.Errorf("commits: %q", got)
	}
	if got, err := files(r.root, ".go"); err != nil || !slices.Contains(got, firstFile) {
		t.Errorf("files: %q, %v", got, err)
	}
}

func TestFindingsOnNewLinesComeFirst(t *testing.T) {
	r := newRepository(t)
	old := "package a\n\n// A says that it is.\nvar A int\n"
	r.write("internal/a/b.go", old)
	r.write(allowancesFile, "words\tinternal/a\t1\n")
	r.git("init", "-q")
	r.commit("area: start")
	r.write("internal/a/b.go", old+"\n// B says that it is.\nvar B int\n")
	r.write("internal/a/c.go", "package a\n\n// C says that it is.\nvar C int\n")
	r.fails("3 instead of 1 findings\n" +
		"  internal/a/b.go:6: \"says that\"; instead: reports that\n" +
		"  internal/a/c.go:3: \"says that\"; instead: reports that\n" +
		"  internal/a/b.go:3: \"says that\"; instead: reports that\n")
}

func TestParseDiff(t *testing.T) {
	c := parseDiff("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +2,3 @@ func\n+a\n@@ -9,2 +20 @@\n+b\n@@ -30,2 +31,0 @@\n")
	var lines []int
	for line := range 40 {
		if c.isNew(finding{file: "x", line: line}) {
			lines = append(lines, line)
		}
	}
	if want := []int{2, 3, 4, 20}; !slices.Equal(lines, want) {
		t.Errorf("new lines: %v, want %v", lines, want)
	}
	if c.isNew(finding{file: "y", line: 2}) {
		t.Error("a line of another file is new")
	}
}
