package manifest

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/protocol/key"
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

// TestShardsInOneNamespace shows that the agents that share a location in one namespace have one account and no
// other object in common. Each agent gets the number of its shard.
func TestShardsInOneNamespace(t *testing.T) {
	named := func(shard key.Shard) (shared, own map[string]bool, all string) {
		shared, own = map[string]bool{}, map[string]bool{}
		for _, o := range printed(t, Agent{Location: "paris", Join: hush, Namespace: Namespace, Image: "i", Shard: shard}) {
			var is struct {
				Kind     string
				Metadata struct{ Name string }
			}
			if err := yaml.Unmarshal([]byte(o), &is); err != nil {
				t.Fatal(err)
			}
			what := is.Kind + " " + is.Metadata.Name
			switch is.Kind {
			case "Secret", "PersistentVolumeClaim", "Deployment":
				own[what] = true
			default:
				shared[what] = true
			}
			all += o
		}
		return shared, own, all
	}
	shared, whole, all := named(key.Shard{})
	if strings.Contains(all, "--shards") {
		t.Error("the agent of the whole is told of shards")
	}
	sharedFirst, first, all := named(key.NewShard(1, 3))
	if !maps.Equal(first, whole) || !maps.Equal(shared, sharedFirst) || !strings.Contains(all, "--shards=1/3") {
		t.Errorf("the first of three goes on with what that of the whole has: %v, %v", first, whole)
	}
	sharedSecond, second, all := named(key.NewShard(2, 3))
	if !maps.Equal(shared, sharedSecond) || len(second) != len(first) || !strings.Contains(all, "--shards=2/3") || !strings.Contains(all, "claimName: orrery-agent-2\n") || !strings.Contains(all, "secretName: orrery-agent-2-join\n") {
		t.Errorf("the second of three:\n%s", all)
	}
	for what := range second {
		if first[what] {
			t.Errorf("the first and the second have both %s", what)
		}
	}
	if strings.Contains(all, "app.kubernetes.io/name: orrery-agent\n") {
		t.Error("the Deployment of the first selects the Pod of the second")
	}
}
