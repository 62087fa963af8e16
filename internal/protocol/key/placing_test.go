package key

import (
	"strings"
	"testing"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"orrery.dev/orrery/test/support/seeds"
)

func TestPlacing(t *testing.T) {
	configmap := func(s Space, namespace string) Object {
		return Object{s, Identity{NewResource("", "configmaps"), namespace, "x"}}
	}
	long := strings.Repeat("n", 63)
	for name, c := range map[string]struct {
		object Object
		want   string
	}{
		"in a namespace":     {configmap("s", "default"), "core/configmaps/s--default/x"},
		"a Namespace":        {Object{"s", Identity{Namespaces, "", "default"}}, "core/namespaces/s--default"},
		"as long as may be":  {configmap("s", long[:60]), "core/configmaps/s--" + long[:60] + "/x"},
		"longer":             {configmap("s", long[:61]), "core/configmaps/s---" + long[:38] + "-" + "HASH/x"},
		"the longest":        {configmap(Space(long[:40]), long), "core/configmaps/" + long[:40] + "---HASH/x"},
		"in no namespace":    {Object{"s", Identity{NewResource("rbac.authorization.k8s.io", "clusterroles"), "", "x"}}, "rbac.authorization.k8s.io/clusterroles/x"},
		"with two separated": {configmap("s", "a--b"), "core/configmaps/s--a--b/x"},
	} {
		got := Prefixed.TargetIdentity(c.object).String()
		if i := strings.Index(c.want, "HASH"); i >= 0 {
			if len(got) < i+placeHash || got[:i] != c.want[:i] || got[i+placeHash:] != c.want[i+len("HASH"):] {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		} else if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if Same.TargetIdentity(c.object) != c.object.Identity || Same.Locate(c.object) != (Located{Object: c.object}) {
			t.Errorf("%s: it does not stay where it is", name)
		}
	}
	for _, r := range []Resource{CRDs, NewResource("", "nodes"), Locations} {
		if Prefixed.Admits(r, "") || !Same.Admits(r, "") || !Prefixed.Admits(r, "n") {
			t.Errorf("%s in no namespace", r)
		}
	}
	if !Prefixed.Admits(Namespaces, "") {
		t.Error("a Namespace is not admitted")
	}
	// The name must not change with a version of the agent, since clusters contain such namespaces.
	if got := prefixed("space", long); got != "space---nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-"+got[len(got)-placeHash:] || got[len(got)-placeHash:] != "0957gmhjdg655nqk8nfv" {
		t.Errorf("a namespace that is too long became %s", got)
	}
}

// TestPlacesAreApart: different namespaces of spaces have different namespaces in a cluster, and
// their names are valid there.
func TestPlacesAreApart(t *testing.T) {
	label := func(most int) *rapid.Generator[string] {
		// The names have few letters, so that many are prefixes of others.
		return rapid.Custom(func(t *rapid.T) string {
			inner := rapid.StringOfN(rapid.RuneFrom([]rune("ab---")), 0, most-2, -1).Draw(t, "inner")
			return "a" + inner + rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "end")
		}).Filter(func(s string) bool { return len(utilvalidation.IsDNS1123Label(s)) == 0 })
	}
	spaces := label(maxNameLength).Filter(func(s string) bool { return ValidateName(s) == nil })
	seeds.Check(t, func(t *rapid.T) {
		one := Object{Space(spaces.Draw(t, "space")), Identity{Namespaces, "", label(63).Draw(t, "namespace")}}
		other := Object{Space(spaces.Draw(t, "space")), Identity{Namespaces, "", label(63).Draw(t, "namespace")}}
		identity := Prefixed.TargetIdentity(one)
		if rapid.Bool().Draw(t, "by the place") { // the name that the other space's namespace would need
			if rest, ok := strings.CutPrefix(identity.Name, string(other.Space)+prefixEnd); ok && len(utilvalidation.IsDNS1123Label(rest)) == 0 {
				other.Name = rest
			}
		}
		if problems := utilvalidation.IsDNS1123Label(identity.Name); len(problems) > 0 {
			t.Fatalf("%s is at %q: %v", one.Path(), identity.Name, problems)
		}
		if one != other && identity == Prefixed.TargetIdentity(other) {
			t.Fatalf("%s and %s are both at %s", one.Path(), other.Path(), identity)
		}
		if back := Prefixed.Locate(one).Source(); back != one {
			t.Fatalf("%s came back as %s", one.Path(), back.Path())
		}
		in := Object{one.Space, Identity{NewResource("apps", "deployments"), one.Name, "x"}}
		if got := Prefixed.Locate(in); got.Namespace != identity.Name || got.Source() != in {
			t.Fatalf("what is in %s is at %s", one.Path(), got.Path())
		}
	})
}
