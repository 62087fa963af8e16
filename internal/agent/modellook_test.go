package agent

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/reconcile"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestModelLookAtPlaces checks the responses to inspect requests at a location that prefixes
// namespaces with the space: each space sees its own objects, by their names in the space.
func TestModelLookAtPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &proofModel{world: newWorldOf(t, 1, t.TempDir(), key.Prefixed)}
		defer p.stop(true)
		namespace, config := key.Identity{Resource: key.Namespaces, Name: "a"}, key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "a", Name: "x"}
		for _, s := range []key.Space{"s", "t"} {
			for _, id := range []key.Identity{namespace, config} {
				meta := map[string]any{"name": id.Name}
				if id.Namespace != "" {
					meta["namespace"] = id.Namespace
				}
				p.hub.mu.Lock()
				p.world.offer(key.Object{Space: s, Identity: id}.Path(), "u-"+string(s)+"1", wire.Frame{}, map[string]any{
					"apiVersion": "v1", "kind": servedKind(id.Resource).kind, "data": map[string]any{"v": "of " + string(s)}, "metadata": meta,
				}, wire.Policy{})
				p.hub.mu.Unlock()
			}
		}
		<-time.After(30 * time.Second)
		a := p.agent
		r := reconcile.Inspector{Reconciler: reconcile.New(reconcile.Config{
			Store: a.store, Engine: a.engine, Target: a.target, Gate: a.gate, State: a.state, Prover: a.prover, Reporter: a.reporter,
			Repairs: a.metrics.repairs, Contested: a.metrics.contested, Log: a.log,
		})}
		for _, s := range []key.Space{"s", "t"} {
			for _, id := range []key.Identity{namespace, config} {
				for _, all := range []bool{false, true} {
					k := key.Object{Space: s, Identity: id}.Path()
					got := r.Inspect(t.Context(), wire.InspectRequest{Key: k, All: all})
					if got.Reason != "" || got.Message != "" || !bytes.Equal(got.Live, got.Desired) {
						t.Errorf("%s: %s %s\nlive    %s\ndesired %s", k, got.Reason, got.Message, got.Live, got.Desired)
					}
					m := gjson.GetManyBytes(got.Live, "metadata.name", "metadata.namespace", "data.v")
					if m[0].Str != id.Name || m[1].Str != id.Namespace || m[2].Str != "of "+string(s) {
						t.Errorf("%s is shown as %s", k, got.Live)
					}
				}
			}
		}
		for _, k := range []string{"s/core/configmaps/s--a/x", "s/core/configmaps/t--a/x", "u/core/configmaps/a/x"} {
			if got := r.Inspect(t.Context(), wire.InspectRequest{Key: k}); got.Reason != v1alpha1.ReasonNotPlaced || got.Live != nil {
				t.Errorf("of %s it is told: %+v", k, got)
			}
		}
	})
}
