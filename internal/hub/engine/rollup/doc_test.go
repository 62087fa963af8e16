package rollup

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestTableInDocs checks that docs/status.md has the table of the rules.
func TestTableInDocs(t *testing.T) {
	const page = "../../../../docs/status.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if want := table(); !strings.Contains(string(text), want) {
		t.Errorf("%s has not the table of the rules:\n%s", page, want)
	}
}

// table is the rules as text: a row for each kind and rule.
func table() string {
	var b strings.Builder
	b.WriteString("| resource | fields of its status | merged value |\n|---|---|---|\n")
	write := func(name string, rules []rule) {
		for i := 0; i < len(rules); {
			text, fields := rules[i].merge.text(), []string(nil)
			for ; i < len(rules) && rules[i].merge.text() == text; i++ {
				fields = append(fields, "`"+rules[i].field+"`")
			}
			fmt.Fprintf(&b, "|%s | %s | %s |\n", name, strings.Join(fields, ", "), text)
			name = ""
		}
	}
	for _, k := range kinds {
		name := k.resource.Resource
		if k.resource.Group != key.CoreGroup {
			name += "." + k.resource.Group
		}
		write(" `"+name+"`", k.rules)
	}
	write(" any other, with conditions", custom)
	return b.String()
}
