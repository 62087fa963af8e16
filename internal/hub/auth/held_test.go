package auth

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// numbered returns different strings.
func numbered(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(prefix, i)
	}
	return all
}

// TestEscalationBombs: checking a very large rule takes limited time, and the rule is refused.
func TestEscalationBombs(t *testing.T) {
	w := newWorld(t)
	w.grant("a", "admin", `{subjects: [{kind: User, name: admin}], roles: [{name: admin}]}`)
	w.grant("a", "jane", `{subjects: [{kind: User, name: jane}], roles: [{name: view}], rules: [{apiGroups: ["*"], resources: ["*"], resourceNames: [x, y], verbs: ["*"]}]}`)
	bomb := rbacv1.PolicyRule{
		Verbs: numbered("v", 64), APIGroups: numbered("g", 64), Resources: numbered("r", 64), ResourceNames: append(numbered("n", 1024), "x"),
	}
	for _, who := range []string{"admin", "jane"} {
		h := w.decides.heldIn("a", named(who))
		var lacking lacks
		for range 64 {
			h.lacking(bomb, numbered("ns", 1024), &lacking)
		}
		if most := maxSteps + 2*len(bomb.ResourceNames); h.steps > most || len(lacking) == 0 && h.steps <= maxSteps {
			t.Errorf("%s: %d steps, at most %d; lacks %s", who, h.steps, most, lacking)
		}
	}
	h := w.decides.heldIn("a", named("admin"))
	var lacking lacks
	h.lacking(rbacv1.PolicyRule{Verbs: numbered("v", 8), APIGroups: numbered("g", 16), Resources: numbered("r", 64), ResourceNames: numbered("n", 256)}, numbered("ns", 256), &lacking)
	if len(lacking) > 0 || h.steps > maxSteps {
		t.Errorf("an admin lacks %s after %d steps", lacking, h.steps)
	}
}

// TestHeldEqualsRBAC: the missing rights equal those that Kubernetes finds.
func TestHeldEqualsRBAC(t *testing.T) {
	words := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "*"}), 1, 3, rapid.ID)
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 3, rapid.ID)
	things := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "a/s", "b/s", "*/s", "*", "*/t"}), 1, 4, rapid.ID)
	rule := rapid.Custom(func(t *rapid.T) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			Verbs: words.Draw(t, "verbs"), APIGroups: words.Draw(t, "groups"), Resources: things.Draw(t, "resources"), ResourceNames: names.Draw(t, "names"),
		}
	})
	seeds.Check(t, func(t *rapid.T) {
		owner, wants := rapid.SliceOfN(rule, 0, 4).Draw(t, "holds"), rule.Draw(t, "wants")
		h := &held{z: &Authorizer{}, space: "a"}
		for _, r := range owner {
			h.rules = append(h.rules, newHeldRule(r, nil))
		}
		var lacking lacks
		h.lacking(wants, nil, &lacking)
		if covered, left := validation.Covers(owner, []rbacv1.PolicyRule{wants}); covered != (len(lacking) == 0) {
			t.Fatalf("lacks %s, Kubernetes says %v", lacking, left)
		}
	})
}

// TestMissingRightsAreNamed: an error names a readable number of missing rights.
func TestMissingRightsAreNamed(t *testing.T) {
	w := newWorld(t)
	var lacking lacks
	h := w.decides.heldIn(key.Root, named("jane"))
	h.lacking(rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"apps"}, Resources: []string{"deployments"}, ResourceNames: []string{"x"}}, []string{"m"}, &lacking)
	h.lacking(rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}, nil, &lacking)
	if got, want := lacking.String(), `get ["/metrics"], get deployments.apps ["x"] in namespace "m"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	h.lacking(rbacv1.PolicyRule{Verbs: numbered("v", 99), APIGroups: []string{""}, Resources: []string{"pods"}}, nil, &lacking)
	if got := lacking.String(); !strings.HasSuffix(got, ", and more") || strings.Count(got, ", ") != maxNamed {
		t.Errorf("got %s", got)
	}
}
