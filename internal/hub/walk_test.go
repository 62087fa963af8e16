package hub_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

func TestWalk(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	a := r.join("a")
	for i := range 300 {
		r.addConfigMap(fmt.Sprintf("n%03d", i), map[string]string{"what": "app"}, "v")
	}
	have := holding{}
	a.walk(have)
	same := func() {
		t.Helper()
		rows, _ := r.Table.Members("a")
		if root, count := totalOf(r, rows, "a"); have.root() != root || len(have) != count {
			t.Fatalf("the agent has %d objects, the hub %d", len(have), count)
		}
	}
	same()
	if pages, _ := a.walk(have); pages != 1 {
		t.Errorf("a walk in sync took %d pages", pages)
	}
	configMaps := r.space("s").Resource(configMapsGVR).Namespace("default")
	if err := configMaps.Delete(t.Context(), "n007", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.addConfigMap("n999", map[string]string{"what": "app"}, "v")
	have["s/core/configmaps/default/ghost"] = wire.SumOf([]byte("ghost"))
	have["s/core/configmaps/default/n100"] = wire.SumOf([]byte("other"))
	a.walk(have)
	same()
}

// totalOf recounts the desired content of a location.
func totalOf(r *running, rows []*table.Row, l key.Location) (root wire.Sum, count int) {
	for _, row := range rows {
		d, ok := desiredOf(r, row, l)
		switch {
		case !ok:
			continue
		case d.Owner != "":
			d.Policy, d.Digest = wire.Policy{}, wire.SumOf([]byte("conflict:"+d.Owner))
		case d.Held != "":
			d.Policy, d.Digest = wire.Policy{}, wire.SumOf([]byte("hold:"+d.HeldFor))
		}
		path, _ := key.PathOf(row.Key)
		root, count = root.Add(wire.LeafSum(path, row.Meta.UID, d.Digest, d.Policy)), count+1
	}
	return root, count
}

func desiredOf(r *running, row *table.Row, l key.Location) (objectstate.Desired, bool) {
	m, ok := row.In.(*placement.Membership)
	if !ok {
		return objectstate.Desired{}, false
	}
	p, ok := m.Place(l)
	if !ok {
		return objectstate.Desired{}, false
	}
	return objectstate.DesiredOf(r.Renderer.Digest, row, p), true
}
