package hub_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
)

// TestHubsWithOtherClocks: hubs whose clocks are ten minutes apart get on: what one issues is good
// at the other, an agent that moves between them is connected all the while and lost no sooner
// than another, and deletions in two steps, which one may complete for the other, are no errors.
func TestHubsWithOtherClocks(t *testing.T) {
	t.Parallel()
	const skew = 10 * time.Minute
	var hours clock
	one := hubsOn(t, 1, hours.moved)[0]
	one.addSpace("s")
	one.elects(one)
	for name, ahead := range map[string]time.Duration{"ahead": skew, "behind": -skew} {
		other := start(t, sharedWith(t, one.dir), func(c *hub.Config) {
			c.EtcdServers, c.Lease, c.Disconnected = one.conf.EtcdServers, one.conf.Lease, lostAfter
			c.Now = func() time.Time { return hours.now().Add(ahead) }
		})
		one.clocksDiffer(other, name, &hours)
		other.stop()
	}
}

// clocksDiffer shows that a hub gets on with another, which is called something.
func (r *running) clocksDiffer(other *running, name string, hours *clock) {
	r.t.Helper()
	r.grant("s", name, fmt.Sprintf(`{"subjects":[{"kind":"User","name":%q}],"roles":[{"name":"view"}]}`, name))
	for _, hubs := range [][2]*running{{r, other}, {other, r}} {
		made := hubs[0].token(fmt.Sprintf(`{"user":%q}`, name))
		if code, body := hubs[1].bearing(made.Status.Token).send("GET /spaces/s/api/v1/configmaps", ""); code != http.StatusOK {
			r.t.Errorf("%s: a token of the other hub: %d %s", name, code, body)
		}
		for i := range 10 {
			pod := fmt.Sprint(name, i)
			hubs[0].create("s", podsGVR, somePod("default", pod))
			if err := hubs[1].space("s").Resource(podsGVR).Namespace("default").Delete(r.t.Context(), pod, metav1.DeleteOptions{}); err != nil {
				r.t.Errorf("%s: delete a Pod: %v", name, err)
			}
		}
	}
	r.addLocation("a", nil)
	a := other.join("a")
	a.open(0, "").next()
	a.tell(wire.AgentStatus{Version: "v1"})
	r.becomes("a", v1alpha1.ConditionConnected, metav1.ConditionTrue, "Session")
	r.eventually(func() string {
		if st := r.location("a").Status.Agent; st == nil || st.Version != "v1" {
			return fmt.Sprintf("the agent is %+v", st)
		}
		return ""
	})
	r.idle()
	before := r.location("a")
	var last *stream
	for _, hub := range []*running{r, other, r} {
		last = a.connectTo(hub).open(0, "")
		last.next()
		r.session(hub)
	}
	if now := r.location("a"); now.ResourceVersion != before.ResourceVersion {
		r.t.Errorf("%s: the Location was written while its agent moved: %+v, then %+v", name, before.Status, now.Status)
	}
	last.close()
	r.session(nil)
	hours.pass(lostAfter / 2)
	r.touch("a")
	r.throughout(limit.Window, r.connected)
	r.loses(hours, "a")
	other.becomes("a", v1alpha1.ConditionConnected, metav1.ConditionFalse, "Disconnected")
	r.remove(key.Root, locationsGVR, "a")
	r.eventually(func() string {
		if row, _ := r.Table.Get(key.Location("a").Key()); row != nil {
			return "the Location is still there"
		}
		return ""
	})
}
