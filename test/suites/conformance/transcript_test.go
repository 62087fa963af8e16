package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// transcript records the responses of a side. Placeholders replace all values that vary between
// runs.
type transcript struct {
	// placed reports whether a table had the columns that only a space has.
	placed bool
	lines  []string
	// uids has a placeholder for each UID, in order of appearance.
	uids map[string]string
	// hidden are words that vary, with their placeholders, as pairs.
	hidden []string
}

func (t *transcript) String() string {
	if len(t.lines) == 0 {
		return ""
	}
	text := strings.Join(t.lines, "\n") + "\n"
	if t.placed {
		text += "tables have the columns Placed, Applied, Healthy and Failed, too\n"
	}
	return text
}

func (t *transcript) line(line string) { t.lines = append(t.lines, t.words(line)) }

// hide replaces a word, such as a generated name, by a placeholder.
func (t *transcript) hide(word, as string) {
	if word != "" {
		t.hidden = append(t.hidden, word, as)
	}
}

func (t *transcript) answer(a answer) {
	t.line(fmt.Sprintf("  %d %s", a.code, a.header.Get("Content-Type")))
	for _, name := range []string{"Warning", "Allow", "Accept-Patch", "Location", "Content-Encoding", "Retry-After"} {
		for _, value := range a.header.Values(name) {
			t.line("  " + name + ": " + value)
		}
	}
	switch {
	case a.object["kind"] == "Table":
		t.table(a)
	case a.object != nil:
		t.value(a.object)
	case strings.Contains(a.header.Get("Content-Type"), "yaml"):
		var v any
		if err := yaml.Unmarshal(a.body, &v); err != nil {
			t.line("    no YAML: " + err.Error())
		}
		t.value(v)
	default:
		t.block(string(a.body))
	}
}

// table records a line for each column and for each row. It omits the descriptions of columns, which
// no client shows, and replaces ages.
func (t *transcript) table(a answer) {
	columns, _ := a.field("columnDefinitions").([]any)
	n := len(columns)
	if n > 4 {
		if first, _ := columns[n-4].(map[string]any); first["name"] == "Placed" {
			t.placed = true
			columns = columns[:n-4]
		}
	}
	for _, c := range columns {
		m, _ := c.(map[string]any)
		t.line(fmt.Sprintf("    column %v %v %q %v", m["name"], m["type"], m["format"], m["priority"]))
	}
	rows, _ := a.field("rows").([]any)
	for _, r := range rows {
		m, _ := r.(map[string]any)
		cells, _ := m["cells"].([]any)
		line := "    row"
		for _, cell := range cells[:min(len(cells), len(columns))] {
			line += " | " + age.ReplaceAllString(fmt.Sprint(cell), "(age)")
		}
		t.line(line)
		t.value(m["object"])
	}
	delete(a.object, "columnDefinitions")
	delete(a.object, "rows")
	t.value(a.object)
}

var age = regexp.MustCompile(`^\d+m?s$`)

// value records a JSON value as YAML.
func (t *transcript) value(v any) {
	out, err := yaml.Marshal(t.normal("", v))
	if err != nil {
		out = []byte(err.Error())
	}
	t.block(string(out))
}

func (t *transcript) block(text string) {
	const enough = 4000
	if len(text) > enough {
		text = fmt.Sprintf("%s... (%d more bytes)", text[:enough], len(text)-enough)
	}
	for line := range strings.Lines(text) {
		t.line("    " + strings.TrimRight(line, "\n"))
	}
}

// varying matches text that varies between runs, and the names of the Go types of a server, which
// are not part of the API.
var varying = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "(time)"},
	{regexp.MustCompile(`(resource version: |current: |resourceVersion=|resourceVersion\\?":\\?"|resource version: \(rv\) \()[1-9]\d*`), "${1}(rv)"},
	{regexp.MustCompile(`continue=[A-Za-z0-9_%-]{20,}`), "continue=(token)"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "(address)"},
	{regexp.MustCompile(`Key: [^,]+`), "Key: (key)"},
	{regexp.MustCompile(` \d+s\]`), " (age)]"},
	{regexp.MustCompile(`(precondition|in record) \([1-9]\d*\)`), "$1 ((rv))"},
	{regexp.MustCompile(`\(\*?[a-z0-9]+\.([A-Z][A-Za-z]*|list|object)\)`), "(type)"},
}

var uid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// normal replaces the parts of a value that vary between runs.
func (t *transcript) normal(field string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, item := range v {
			switch {
			case k == "managedFields":
				out[k] = t.managers(item)
			case k == "causes":
				out[k] = t.once(item)
			case k == "continue" && item == "":
				// The last page of a list of custom resources has an empty continue token; other lists omit it.
			default:
				out[k] = t.normal(k, item)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = t.normal("", item)
		}
		return out
	case string:
		switch {
		case field == "resourceVersion" && v != "" && v != "0":
			return "(rv)"
		case field == "continue" && v != "":
			return "(token)"
		}
		return t.words(v)
	}
	return v
}

// once removes duplicate causes: some strategies of Kubernetes report a cause twice.
func (t *transcript) once(v any) any {
	list, _ := v.([]any)
	var causes []any
	for _, item := range list {
		cause := t.normal("", item)
		if !slices.ContainsFunc(causes, func(other any) bool { return fmt.Sprint(other) == fmt.Sprint(cause) }) {
			causes = append(causes, cause)
		}
	}
	return causes
}

// managers returns a line for each manager.
func (t *transcript) managers(v any) any {
	list, ok := v.([]any)
	if !ok {
		return t.normal("", v)
	}
	lines := make([]any, len(list))
	for i, item := range list {
		m, _ := item.(map[string]any)
		var fields bytes.Buffer
		encoder := json.NewEncoder(&fields)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(t.normal("", m["fieldsV1"])); err != nil {
			return err.Error()
		}
		lines[i] = strings.TrimSpace(fmt.Sprintf("%v %v %v %v %v", m["manager"], m["operation"], m["apiVersion"], m["subresource"], fields.String()))
	}
	// Managers of the same second have no fixed order.
	slices.SortFunc(lines, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return lines
}

// words replaces the parts of a text that vary between runs.
func (t *transcript) words(text string) string {
	text = strings.NewReplacer(append([]string{"/spaces/" + spaceName, ""}, t.hidden...)...).Replace(text)
	text = uid.ReplaceAllStringFunc(text, func(id string) string {
		if t.uids == nil {
			t.uids = map[string]string{}
		}
		if t.uids[id] == "" {
			t.uids[id] = fmt.Sprintf("(uid %d)", len(t.uids)+1)
		}
		return t.uids[id]
	})
	for _, v := range varying {
		text = v.what.ReplaceAllString(text, v.as)
	}
	return text
}

// headerOf is a header as a behaviour that looks at it by itself shows it.
func headerOf(h http.Header, name string) string {
	return name + ": " + strings.Join(h.Values(name), ", ")
}
