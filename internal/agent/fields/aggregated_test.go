package fields

import (
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestWithoutAggregated: only the rules of an aggregated ClusterRole are left out.
func TestWithoutAggregated(t *testing.T) {
	for name, c := range map[string]struct {
		resource    key.Resource
		object, out string
	}{
		"aggregated":       {clusterRoles, `{"aggregationRule":{"clusterRoleSelectors":[]},"kind":"ClusterRole","rules":[]}`, `{"aggregationRule":{"clusterRoleSelectors":[]},"kind":"ClusterRole"}`},
		"without rules":    {clusterRoles, `{"aggregationRule":{},"kind":"ClusterRole"}`, `{"aggregationRule":{},"kind":"ClusterRole"}`},
		"not aggregated":   {clusterRoles, `{"rules":[],"kind":"ClusterRole"}`, `{"rules":[],"kind":"ClusterRole"}`},
		"no aggregation":   {clusterRoles, `{"aggregationRule":null,"rules":[]}`, `{"aggregationRule":null,"rules":[]}`},
		"another resource": {key.NewResource("a.b", "clusterroles"), `{"aggregationRule":{},"rules":[]}`, `{"aggregationRule":{},"rules":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := WithoutAggregated(c.resource, []byte(c.object))
			if err != nil || string(got) != c.out {
				t.Errorf("%s, %v, want %s", got, err, c.out)
			}
		})
	}
}
