package agent

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestModelOutdatedTurn changes the desired object and its policy while a worker, which knows the former ones,
// reads the object at the cluster. The worker must not write the new object by the former policy: the new one
// protects what others have written.
func TestModelOutdatedTurn(t *testing.T) {
	for name, c := range map[string]struct {
		policy  wire.Policy
		dropped bool
		want    string
	}{
		"released":   {policy: wire.Policy{Release: "$.data.v"}, want: "theirs"},
		"createOnly": {policy: wire.Policy{CreateOnly: true}, want: "theirs"},
		"changed":    {want: "2"},
		"dropped":    {dropped: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProofModel(t)
				defer p.stop(true)
				id := identities[2]
				p.offerAll("1", id, identities[3]) // the other one keeps the kind observed
				changed := false
				p.hub.mu.Lock()
				noted := p.hub.took
				p.hub.took = func(l wire.ReportLine) {
					if l.Report != nil && l.Report.State == wire.Failed {
						t.Errorf("a report has %s/%s: %s", l.Report.State, l.Report.Reason, l.Report.Message)
					}
					noted(l)
				}
				p.hub.mu.Unlock()
				p.onCluster(func(cl *cluster) {
					p.line.onRequest = func(r *http.Request) {
						if changed || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/configmaps/"+id.Name) {
							return
						}
						changed = true
						if c.dropped {
							p.drop(id, 1, 1)
						} else {
							p.offer(id, "2", c.policy)
						}
						<-time.After(5 * time.Second) // the store has it by then
					}
					theirs := `"theirs"`
					cl.set(id.String(), cl.objects[id.String()].edit("kubectl", map[string]*string{
						fieldPath("data", "v"): &theirs, fieldPath("metadata", "labels", v1alpha1.LocationLabel): nil,
					}))
				})
				<-time.After(time.Minute)
				if !changed {
					t.Fatal("the agent has not read the object")
				}
				p.expectValues(name, map[key.Identity]string{id: c.want})
			})
		})
	}
}
