package orrery_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// designPages returns the paths of the design pages and their index.
func designPages(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("docs/design/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no design pages: %v", err)
	}
	return pages
}

const guaranteesPage = "docs/guarantees.md"

// sourceDocuments returns the documents that name parts of the source.
func sourceDocuments(t *testing.T) []string {
	t.Helper()
	return append([]string{"ARCHITECTURE.md", "CONTRIBUTING.md"}, designPages(t)...)
}

var (
	fenced   = regexp.MustCompile("(?ms)^```.*?^```$")
	quoted   = regexp.MustCompile("`([^`\n]+)`")
	ofFile   = regexp.MustCompile(`^(internal|apis|cmd|test|tools|docs|bench)(/[\w.-]+)+$`)
	ofTest   = regexp.MustCompile(`^((?:Test|Fuzz|Benchmark)\w*)(…|/.*)?$`)
	ofSource = regexp.MustCompile(`^([a-z]\w*)\.(?:\w+\.)?(\w+)$`)
)

// TestDocumentsNameSource checks that the files, tests and identifiers that documents name
// exist, so a change that moves or renames one finds its documents.
func TestDocumentsNameSource(t *testing.T) {
	for _, document := range sourceDocuments(t) {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(fenced.ReplaceAllString(string(text), "")) {
			pkg := "" // that the line speaks of
			for _, match := range quoted.FindAllStringSubmatch(line, -1) {
				name := match[1]
				if ofFile.MatchString(name) {
					pkg = folderOf(name)
				}
				if err := isThere(name, pkg); err != nil {
					t.Errorf("%s: `%s`: %v", document, name, err)
				}
			}
		}
	}
}

// TestThreatsAreAnswered checks that each threat of the threat model has an answer, and that
// an existing test shows it.
func TestThreatsAreAnswered(t *testing.T) {
	const page = "docs/security.md"
	rows := tableRows(t, page, "threat")
	for _, row := range rows {
		if len(row) != 3 {
			t.Errorf("%s: want a threat, its answer and its tests: %q", page, row)
			continue
		}
		checkTests(t, page, row[2])
	}
	if len(rows) < 30 {
		t.Errorf("%s has %d threats", page, len(rows))
	}
}

// TestGuaranteesAreShown checks that each guarantee names an existing test.
func TestGuaranteesAreShown(t *testing.T) {
	rows := tableRows(t, guaranteesPage, "guarantee")
	for _, row := range rows {
		if len(row) != 2 {
			t.Errorf("%s: want a guarantee and its tests: %q", guaranteesPage, row)
			continue
		}
		checkTests(t, guaranteesPage, row[1])
	}
	if len(rows) < 100 {
		t.Errorf("%s has %d guarantees", guaranteesPage, len(rows))
	}
}

// tableRows returns the cells of all tables of a page whose first column has a title.
func tableRows(t *testing.T, page, title string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	inTable := false
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "| "+title+" |"):
			inTable = true
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case inTable && !strings.HasPrefix(line, "|-"):
			rows = append(rows, strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | "))
		}
	}
	return rows
}

// checkTests fails if a cell names no test, or a test that does not exist. A package below
// test/ and a file of tests count as tests.
func checkTests(t *testing.T, page, cell string) {
	t.Helper()
	pkg, tests := "", 0
	for _, match := range quoted.FindAllStringSubmatch(cell, -1) {
		name := match[1]
		if ofFile.MatchString(name) {
			pkg = folderOf(name)
		}
		if ofTest.MatchString(name) || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(pkg, "test/") {
			tests++
		}
		if err := isThere(name, pkg); err != nil {
			t.Errorf("%s: `%s`: %v", page, name, err)
		}
	}
	if tests == 0 {
		t.Errorf("%s: no test shows this: %s", page, cell)
	}
}

// isThere returns an error if a name is missing: a file, a test of a package ("…" for all that
// begin so), or PACKAGE.NAME.
func isThere(name, pkg string) error {
	switch {
	case ofFile.MatchString(name):
		_, err := os.Stat(name)
		return err
	case ofTest.MatchString(name):
		test, end := ofTest.FindStringSubmatch(name)[1], `\(`
		if strings.HasSuffix(name, "…") {
			end = ""
		}
		return declared(pkg, true, `(?m)^func `+test+end)
	case ofSource.MatchString(name):
		match := ofSource.FindStringSubmatch(name)
		var missing error // of none of our packages, or declared in one that is called so
		for _, dir := range packagesCalled(match[1]) {
			if missing = declared(dir, false, `(?m)^(func (\([^)]*\) )?|type |const |var |\t(\w+, )*)`+match[2]+`\b`); missing == nil {
				return nil
			}
		}
		return missing
	}
	return nil
}

// folderOf is the folder of what a document names, which may be one itself; of the data of
// tests, that of the tests.
func folderOf(name string) string {
	if path.Ext(name) != "" {
		name = path.Dir(name)
	}
	name, _, _ = strings.Cut(name, "/testdata")
	return name
}

// packagesCalled are the folders below internal/ with packages of that name.
func packagesCalled(name string) (dirs []string) {
	_ = filepath.WalkDir("internal", func(dir string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == name {
			if files, err := filepath.Glob(filepath.Join(dir, "*.go")); err == nil && len(files) > 0 {
				dirs = append(dirs, dir)
			}
		}
		return err
	})
	return dirs
}

// declared looks for a declaration in the tests, or the rest, of a package.
func declared(pkg string, inTests bool, declaration string) error {
	if pkg == "" {
		return errors.New("the line names no package")
	}
	like := regexp.MustCompile(declaration)
	files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") != inTests {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if like.Match(source) {
			return nil
		}
	}
	return fmt.Errorf("is not in %s", pkg)
}

// TestRecordsAreLinked checks that each record of a past decision is in the history of exactly
// one design page, and that the index lists each page by its title.
func TestRecordsAreLinked(t *testing.T) {
	const folder, index = "docs/design", "docs/design/README.md"
	list, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(folder + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	linkedFrom := map[string][]string{}
	for _, page := range pages {
		if page == index {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		title := regexp.MustCompile(`^# (.+)\n`).FindSubmatch(text)
		if title == nil || !strings.Contains(string(list), fmt.Sprintf("| [%s](%s) |", title[1], filepath.Base(page))) {
			t.Errorf("%s does not list %s by its title", index, page)
		}
		for _, record := range recordsOf(t, page, string(text)) {
			linkedFrom[record] = append(linkedFrom[record], page)
		}
	}
	records, err := filepath.Glob(folder + "/history/0*.md")
	if err != nil || len(records) == 0 {
		t.Fatalf("no records: %v", err)
	}
	for _, record := range records {
		name := filepath.Base(record)
		if from := linkedFrom[name]; len(from) != 1 {
			t.Errorf("%s is linked from %d design pages: %v, want one", record, len(from), from)
		}
		delete(linkedFrom, name)
	}
	if len(linkedFrom) > 0 {
		t.Errorf("records that do not exist: %v", slices.Sorted(maps.Keys(linkedFrom)))
	}
}

// recordsOf returns the records to which the history of a design page links. Changes without a
// record have no link.
func recordsOf(t *testing.T, page, text string) (records []string) {
	t.Helper()
	current, history, _ := strings.Cut(text, "\n## History\n")
	if strings.Contains(current, "](history/") {
		t.Errorf("%s links to a record outside of its history", page)
	}
	like := regexp.MustCompile(`^- \d{4}-\d\d-\d\d: .+?( \(\[(\d{4})\]\(history/(\d{4}-[\w-]+\.md)\)\))?\.$`)
	for line := range strings.SplitSeq(strings.TrimSpace(history), "\n") {
		match := like.FindStringSubmatch(line)
		switch {
		case match == nil:
			t.Errorf("%s: want a line \"- DATE: change.\" or \"- DATE: change ([NUMBER](history/RECORD)).\" in the history: %q", page, line)
		case !strings.HasPrefix(match[3], match[2]):
			t.Errorf("%s: the link %s leads to %s", page, match[2], match[3])
		case match[3] != "":
			records = append(records, match[3])
		}
	}
	return records
}

// TestDependenciesAreExplained checks that docs/dependencies.md gives a reason for each module
// that go.mod requires directly, and for no other.
func TestDependenciesAreExplained(t *testing.T) {
	const page = "docs/dependencies.md"
	table, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (`+"`[^|]*"+`) \|`).FindAllStringSubmatch(string(table), -1) {
		for _, name := range quoted.FindAllStringSubmatch(row[1], -1) {
			for _, module := range expanded(name[1]) {
				explained[module] = true
			}
		}
	}
	for _, line := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(mod), -1) {
		if !explained[line[1]] {
			t.Errorf("%s gives no reason for %s", page, line[1])
		}
		delete(explained, line[1])
	}
	for module := range explained {
		t.Errorf("%s explains %s, which go.mod does not require directly", page, module)
	}
}

// expanded are the names that a name with {a,b} stands for.
func expanded(name string) []string {
	before, rest, ok := strings.Cut(name, "{")
	if !ok {
		return []string{name}
	}
	choice, after, _ := strings.Cut(rest, "}")
	var all []string
	for one := range strings.SplitSeq(choice, ",") {
		all = append(all, before+one+after)
	}
	return all
}
