package kinds_test

import (
	"slices"
	"testing"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
)

func TestCatalogOfSomeKinds(t *testing.T) {
	all := builtins(t)
	some := slices.DeleteFunc(slices.Clone(all), func(k *kinds.Kind) bool { return k.GVR.Group != "apps" && k.GVR.Group != "autoscaling" })
	slices.Reverse(some)
	c := kinds.NewCatalog(append(some, some...), nil)
	var got []string
	for _, k := range c.Kinds() {
		got = append(got, k.GVR.Version+" "+k.GVR.Resource)
	}
	want := []string{
		"v1 controllerrevisions", "v1 daemonsets", "v1 deployments", "v1 replicasets", "v1 statefulsets",
		"v2 horizontalpodautoscalers", "v1 horizontalpodautoscalers",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if k, _ := c.ForStorage(key.NewResource("autoscaling", "horizontalpodautoscalers")); k == nil || !k.StoredAsServed() {
		t.Errorf("got %+v", k)
	}
}
