package custom

import (
	"context"
	"strings"
	"testing"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
)

// TestRulesThatCompare: an object whose rules would compare very much is refused before they are evaluated,
// also if its CRD was stored by an older hub, and its error names the rules. A smaller one is validated.
func TestRulesThatCompare(t *testing.T) {
	k := kindOf(t, `{type: object, properties: {l: {type: array, maxItems: 20000, items: {type: integer}}},
		x-kubernetes-validations: [{rule: "self.l.map(x, self) == self.l.map(x, self)"}]}`)
	for n, want := range map[int]string{20_000: "rules that compare objects and lists", 500: ""} {
		u, err := decode(t, k, apiruntime.ContentTypeJSON, widget(`"l":`+repeat(n, "0")), false)
		if err != nil {
			t.Fatal(err)
		}
		u.SetNamespace("default")
		errs := k.Custom.(version).Strategy().Validate(context.Background(), u)
		if (len(errs) > 0) != (want != "") || want != "" && !strings.Contains(errs.ToAggregate().Error(), want) {
			t.Errorf("%d items: %v", n, errs)
		}
	}
}
