package orrery_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	operations      = "docs/operations"
	troubleshooting = operations + "/troubleshooting.md"
)

// TestReasonsAreDocumented shows that an operator finds each reason of the API as a heading of
// the troubleshooting page, or in its table of reasons that need no action.
func TestReasonsAreDocumented(t *testing.T) {
	sources, err := filepath.Glob("apis/v1alpha1/*.go")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no API: %v", err)
	}
	page := readFile(t, troubleshooting)
	headings := regexp.MustCompile(`(?m)^### .*$`).FindAllString(page, -1)
	_, normal, _ := strings.Cut(page, "\n## Reasons that need no action\n")
	normal, _, _ = strings.Cut(normal, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `.*?\\|").FindAllString(normal, -1)
	reasons := 0
	for _, source := range sources {
		for _, match := range regexp.MustCompile(`\tReason\w+ += "(\w+)"`).FindAllStringSubmatch(readFile(t, source), -1) {
			reasons++
			if !slices.ContainsFunc(append(headings, rows...), func(line string) bool { return strings.Contains(line, "`"+match[1]+"`") }) {
				t.Errorf("%s has neither a heading nor a row for the reason %s", troubleshooting, match[1])
			}
		}
	}
	if reasons < 50 {
		t.Errorf("%d reasons in apis/v1alpha1", reasons)
	}
}

// TestTroubleshootingIsComplete shows that each heading of the troubleshooting page gives a cause, a
// check and a cure, and that each quoted message is one of the source.
func TestTroubleshootingIsComplete(t *testing.T) {
	source := messages(t)
	chapter := ""
	for section := range strings.SplitSeq("\n"+readFile(t, troubleshooting), "\n#") {
		heading, text, _ := strings.Cut(section, "\n")
		name, isEntry := strings.CutPrefix(heading, "## ")
		if !isEntry {
			chapter = strings.TrimPrefix(heading, "# ")
			continue
		}
		for _, item := range []string{"- **Cause.** ", "- **Check.** ", "- **Cure.** "} {
			if !strings.Contains(text, item) {
				t.Errorf("%s: %s: no line begins with %q", troubleshooting, name, item)
			}
		}
		if strings.HasPrefix(chapter, "Messages") {
			for fragment := range strings.SplitSeq(strings.Trim(name, "`"), "…") {
				if fragment = strings.TrimSpace(fragment); !strings.Contains(source, fragment) {
					t.Errorf("%s: no source has the message %q", troubleshooting, fragment)
				}
			}
		}
	}
}

// messages returns the source of hub, agent and command line, without the breaks of string
// literals.
func messages(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir("internal", func(file string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			all.WriteString(readFile(t, file))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(regexp.MustCompile(`" \+\s+"`).ReplaceAllString(all.String(), ""), `\"`, `"`)
}

// TestMetricsAreDocumented shows that the page of metrics names every metric of hub and agent, that
// no page of operations names another one, and that each alert leads to a heading of the
// troubleshooting page.
func TestMetricsAreDocumented(t *testing.T) {
	const page = operations + "/metrics.md"
	sources, err := filepath.Glob("internal/hub/metrics*.go")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no metrics: %v", err)
	}
	measured := map[string]bool{}
	for _, file := range append(sources, "internal/agent/metrics.go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, match := range regexp.MustCompile(`"(orrery_[a-z_]+)"`).FindAllStringSubmatch(readFile(t, file), -1) {
			measured[match[1]] = true
		}
	}
	name := regexp.MustCompile(`\borrery_[a-z_]+[a-z]\b`)
	documented := name.FindAllString(readFile(t, page), -1)
	for metric := range measured {
		if !slices.Contains(documented, metric) {
			t.Errorf("%s does not name %s", page, metric)
		}
	}
	for file, text := range operationsPages(t) {
		for _, metric := range name.FindAllString(text, -1) {
			if !measured[metric] && metric != "orrery_log_reseal" { // a command greps for this prefix
				t.Errorf("%s names %s, which is not measured", file, metric)
			}
		}
	}
	_, alerts, _ := strings.Cut(readFile(t, page), "\n## Alerts\n")
	alerts, _, _ = strings.Cut(alerts, "\n## ")
	headings := strings.Join(regexp.MustCompile(`(?m)^### .*$`).FindAllString(readFile(t, troubleshooting), -1), "\n")
	found := name.FindAllString(alerts, -1)
	for _, metric := range found {
		if !strings.Contains(headings, "`"+metric+"`") {
			t.Errorf("%s has no heading for %s, on which an alert depends", troubleshooting, metric)
		}
	}
	if len(found) < 5 {
		t.Errorf("%s has the alerts %q", page, found)
	}
}

// TestOperationsAreListed shows that the contents of docs/operations lead to each page.
func TestOperationsAreListed(t *testing.T) {
	const contents = operations + "/README.md"
	text := readFile(t, contents)
	for file := range operationsPages(t) {
		if file != contents && !strings.Contains(text, "]("+filepath.Base(file)+")") {
			t.Errorf("%s does not list %s", contents, file)
		}
	}
}

// TestLinksLeadSomewhere shows that the links between the documents lead to files, and to
// headings, that exist.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^()\s]+)\)`)
	for file, text := range linkedPages(t) {
		for _, match := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := file
			if target != "" {
				to = filepath.Join(filepath.Dir(file), target)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %s: %v", file, match[0], err)
			} else if anchor != "" && !slices.Contains(anchors(readFile(t, to)), anchor) {
				t.Errorf("%s: %s: %s has no such heading", file, match[0], to)
			}
		}
	}
}

// anchors returns the names by which links refer to the headings of a page.
func anchors(text string) (all []string) {
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(match[1]), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

// linkedPages returns the pages below docs, and those of benchmarks and tests. It leaves out the records
// of former decisions.
func linkedPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{"bench/README.md": readFile(t, "bench/README.md"), "test/README.md": readFile(t, "test/README.md")}
	for _, pattern := range []string{"docs/*.md", operations + "/*.md"} {
		maps.Copy(pages, pagesOf(t, pattern))
	}
	return pages
}

// operationsPages returns the text of each page of docs/operations.
func operationsPages(t *testing.T) map[string]string {
	t.Helper()
	return pagesOf(t, operations+"/*.md")
}

func pagesOf(t *testing.T, pattern string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages %s: %v", pattern, err)
	}
	pages := map[string]string{}
	for _, file := range files {
		pages[file] = readFile(t, file)
	}
	return pages
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
