package manifest

import (
	"bytes"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const hush = "join-hush"

func printed(t *testing.T, a Agent) []string {
	t.Helper()
	var b bytes.Buffer
	if err := Print(&b, a.Objects()); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimPrefix(b.String(), "---\n"), "---\n")
}

// TestTheTokenIsInTheSecretAlone shows that nothing else has it, and that another one makes
// another Pod.
func TestTheTokenIsInTheSecretAlone(t *testing.T) {
	a := Agent{Location: "paris", Join: hush, Namespace: Namespace, Image: "i"}
	first := printed(t, a)
	for _, o := range first {
		if strings.Contains(o, hush) != strings.Contains(o, "kind: Secret\n") {
			t.Errorf("the token is, or is not, in\n%s", o)
		}
		var fields map[string]any
		if err := yaml.UnmarshalStrict([]byte(o), &fields); err != nil || fields["status"] != nil || strings.Contains(o, "null") {
			t.Errorf("%v:\n%s", err, o)
		}
	}
	a.Join += "-2"
	second := printed(t, a)
	if last := len(first) - 1; first[last] == second[last] {
		t.Error("another token starts no other Pod")
	}
}

// TestRightsAreNamedByNamespace shows that two agents in one cluster do not take each
// other's rights.
func TestRightsAreNamedByNamespace(t *testing.T) {
	one, two := Rights{}, Rights{All: true}
	var a, b bytes.Buffer
	if err := Print(&a, one.Objects(Namespace)); err != nil {
		t.Fatal(err)
	}
	if err := Print(&b, two.Objects("other")); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(a.String(), "name: orrery-agent\n") || !strings.Contains(b.String(), "name: orrery-agent-other\n") || strings.Contains(a.String(), "'*'") {
		t.Errorf("%s\n%s", &a, &b)
	}
}

func TestDefaultImage(t *testing.T) {
	for version, want := range map[string]string{
		"": "devel", "(devel)": "devel", "v1.2.3": "v1.2.3", "v0.0.0-20260101000000-0123456789ab+dirty": "v0.0.0-20260101000000-0123456789ab-dirty",
	} {
		if got := DefaultImage(version); got != "orrery.dev/orrery-agent:"+want {
			t.Errorf("%q: %s", version, got)
		}
	}
}
