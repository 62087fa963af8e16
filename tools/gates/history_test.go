package main

import (
	"slices"
	"strings"
	"testing"
)

// newHistory returns a repository in which the rows of commits are compared.
func newHistory(t *testing.T, rows ...string) *repository {
	t.Helper()
	r := newRepository(t)
	r.write("docs/a.md", "# A\n")
	r.write("docs/b.md", "# B\n")
	r.write(historyFile, "package main\n")
	r.rows(rows...)
	r.init()
	return r
}

// rows writes the allowances, each "gate subject figure".
func (r *repository) rows(rows ...string) {
	r.t.Helper()
	text := allowancesHead
	for _, row := range rows {
		text += strings.ReplaceAll(row, " ", "\t") + "\n"
	}
	r.write(allowancesFile, text)
}

// raises checks which rows the history gate refuses.
func (r *repository) raises(want ...string) {
	r.t.Helper()
	measured, err := measureHistory(newTree(r.root))
	if err != nil || measured.skipped != "" {
		r.t.Fatal(measured.skipped, err)
	}
	var got []string
	for _, s := range measured.subjects {
		for _, f := range s.findings {
			hash, text, isCommit := strings.Cut(strings.TrimPrefix(f.text, "commit "), " ")
			if isCommit && len(hash) == hashLength {
				f.text = "commit " + text
			}
			got = append(got, s.name+": "+f.text)
		}
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("raised: %q, want %q", got, want)
	}
}

func TestNoCommitRaisesARow(t *testing.T) {
	r := newHistory(t, "sentences docs/a.md 3", "words docs/a.md 3")
	r.raises()
	r.rows("sentences docs/a.md 4", "words docs/a.md 3", "words docs/b.md 1")
	raised := []string{
		"sentences docs/a.md: the working tree raises this row from 3 to 4",
		"words docs/b.md: the working tree adds this row, with 1",
	}
	r.raises(raised...)
	r.commit("area: raise rows")
	for i, row := range raised {
		raised[i] = strings.Replace(row, "the working tree", "commit", 1)
	}
	r.raises(raised...)
	r.rows("sentences docs/a.md 4", "words docs/a.md 2", "words docs/b.md 1") // the sum of a gate does not pay for a row
	r.raises(raised...)
	r.rows("sentences docs/a.md 4", "words docs/b.md 1")
	r.raises(raised...)

	r.rows("sentences docs/a.md 3", "words docs/a.md 3")
	r.raises()
	r.commit("area: restore rows")
	r.raises()
	r.rows("words docs/a.md 1")
	r.commit("area: lower rows")
	r.raises()
	r.rows("words docs/a.md 2")
	r.raises("words docs/a.md: the working tree raises this row from 1 to 2")
}

func TestAHigherRowIsNotPaidByAnother(t *testing.T) {
	r := newHistory(t, "words docs/a.md 3", "words docs/b.md 3", "methods internal/a.T 30", "methods internal/a.U 30")
	r.write("docs/a.md", "# A changed page\n")
	r.write("internal/a/a.go", "package a\n")
	r.rows("words docs/a.md 4", "methods internal/a.T 31")
	raised := []string{
		"methods internal/a.T: the working tree raises this row from 30 to 31",
		"words docs/a.md: the working tree raises this row from 3 to 4",
	}
	r.raises(raised...)
	r.commit("area: raise rows")
	r.rows("words docs/a.md 5", "methods internal/a.T 31")
	r.commit("area: raise one again")
	r.rows("words docs/a.md 4", "methods internal/a.T 30") // not low enough
	r.raises("words docs/a.md: commit raises this row from 3 to 4")
}

func TestHistoryStartsWithItsFile(t *testing.T) {
	r := newRepository(t)
	r.write("docs/a.md", "# A\n")
	r.init()
	r.rows("words docs/a.md 3")
	r.commit("area: add rows")
	if measured, err := measureHistory(newTree(r.root)); err != nil || measured.skipped != "nothing to check: no commit adds "+historyFile {
		t.Errorf("before the file: %v, %v", measured, err)
	}
	r.write(historyFile, "package main\n")
	r.rows("words docs/a.md 4")
	r.commit("area: compare rows")
	r.raises()
	r.rows("words docs/a.md 5")
	r.raises("words docs/a.md: the working tree raises this row from 4 to 5")
}

func TestRowsOfMovedSubjects(t *testing.T) {
	r := newHistory(t, "words docs/a.md 3", "words internal/a 4", "methods internal/a.T 30", "words docs/b.md 5")
	r.git("mv", "docs/a.md", "docs/c.md")
	r.rows("words docs/c.md 3", "words internal/a 4", "methods internal/a.T 30", "words docs/b.md 5")
	r.raises()
	r.rows("words docs/c.md 4", "words internal/a 4", "methods internal/a.T 30", "words docs/b.md 5")
	r.raises("words docs/c.md: the working tree adds this row, with 4")
	r.rows("words docs/c.md 3", "words internal/a 4", "methods internal/a.T 30", "words docs/b.md 5")
	r.commit("area: move a page")
	r.raises()

	// A file moves between two folders.
	r.write("internal/a/b.go", "package a\n")
	r.write("internal/b/b.go", "package b\n")
	r.rows("words docs/c.md 3", "words internal/a 4", "words internal/b 2", "methods internal/a.T 30", "words docs/b.md 3")
	r.commit("area: add a folder")
	r.raises()
	r.git("mv", "internal/a/b.go", "internal/b/c.go")
	r.rows("words docs/c.md 3", "words internal/a 1", "words internal/b 5", "methods internal/a.T 30", "words docs/b.md 3")
	r.raises()
	r.commit("area: move a file")
	r.raises()
	r.rows("words docs/c.md 3", "words internal/b 6", "methods internal/a.T 30", "words docs/b.md 3")
	r.raises("words internal/b: the working tree raises this row from 5 to 6")
	r.write("internal/b/untracked.go", "package b\n") // as if it were moved
	r.raises()

	// A type gets another name.
	r.rows("words docs/c.md 3", "words internal/b 6", "methods internal/a.U 30", "words docs/b.md 3")
	r.raises()
	r.rows("words docs/c.md 3", "words internal/b 6", "methods internal/a.U 31", "words docs/b.md 3")
	r.raises("methods internal/a.U: the working tree adds this row, with 31")
}

func TestRowsOfAnExtendedGate(t *testing.T) {
	r := newHistory(t, "words docs/a.md 3", "words internal/a 4", "methods internal/a.T 30")
	r.write(wordsFile, "phrase\tsays that\treports that\nterm\tcensus\tscan\n")
	r.rows("words docs/a.md 5", "words docs/b.md 1", "words internal/a 9", "methods internal/a.T 31")
	r.raises("methods internal/a.T: the working tree raises this row from 30 to 31")
	r.rows("words docs/a.md 5", "words docs/b.md 1", "words internal/a 9", "methods internal/a.T 30")
	r.raises()
	r.write("docs/a.md", "# A longer page\n")
	r.write("internal/a/b.txt", "no page\n")
	r.raises("words docs/a.md: the working tree raises this row from 3 to 5")
	r.write("docs/a.md", "# A\n")
	r.commit("area: refuse another word")
	r.raises()

	r.write("tools/gates/count.go", "package main\n")
	r.rows("words docs/a.md 5", "words docs/b.md 1", "words internal/a 9", "methods internal/a.T 32")
	r.raises()
	r.write("internal/a/c.go", "package a\n")
	r.raises("methods internal/a.T: the working tree raises this row from 30 to 32")
}

func TestRowsOfMerges(t *testing.T) {
	r := newHistory(t, "words docs/a.md 9", "words docs/b.md 9")
	r.git("checkout", "-q", "-b", "side")
	r.git("mv", "docs/a.md", "docs/c.md")
	r.rows("words docs/b.md 9", "words docs/c.md 9")
	r.commit("area: move a page")
	r.git("checkout", "-q", "main")
	r.rows("words docs/a.md 9", "words docs/b.md 7")
	r.commit("area: lower a row")
	r.git("merge", "-q", "--no-ff", "--no-commit", "-X", "theirs", "side")
	r.rows("words docs/b.md 8", "words docs/c.md 9")
	r.raises() // as low as in the other branch
	r.rows("words docs/b.md 3", "words docs/c.md 10")
	r.raises("words docs/c.md: the working tree raises this row from 9 to 10")
	r.commit("Merge side")
	r.raises("words docs/c.md: commit raises this row from 9 to 10")
	r.rows("words docs/b.md 3", "words docs/c.md 8")
	r.raises()
	r.commit("area: lower the row")
	r.raises()

	// A merge that takes the rows of one branch as they are.
	r.git("checkout", "-q", "-b", "other")
	r.rows("words docs/b.md 3", "words docs/c.md 9")
	r.commit("area: raise a row")
	r.git("checkout", "-q", "main")
	r.commit("area: go on")
	r.git("merge", "-q", "--no-ff", "-m", "Merge other", "-s", "ours", "other")
	r.raises()
	r.git("reset", "-q", "--hard", "HEAD~1")
	r.git("merge", "-q", "--no-ff", "-m", "Merge other", "other")
	r.raises("words docs/c.md: commit raises this row from 8 to 9")
}

func TestHistoryIsReported(t *testing.T) {
	r := newHistory(t)
	r.write("docs/a.md", "# A census\n")
	r.rows("words docs/a.md 1")
	r.fails("history: words docs/a.md: the working tree adds this row, with 1", "history: next: bring the figure back")
	r.write("docs/a.md", "# A\n")
	if passed, _, problems := r.run(options{lower: true}); !passed {
		t.Errorf("after -lower:\n%s", problems)
	}
}
