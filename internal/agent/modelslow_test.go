package agent

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestModelSlowAdmission has a cluster that takes one request a second, and refuses the others or queues them: the
// agent goes on, slowly, after a start, too, and is not halted.
func TestModelSlowAdmission(t *testing.T) {
	for _, c := range []struct {
		name    string
		weather weather
	}{
		{"refuses", weather{every: time.Second}},
		{"queues", weather{every: time.Second, queues: true}},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %v", c.name, restart), func(t *testing.T) {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, 1, dir)
					defer func() { w.stop(true) }()
					const many = 40
					var all []key.Identity
					for n := range many {
						id := identities[2]
						id.Name = fmt.Sprintf("slow-%d", n)
						all = append(all, id)
					}
					for _, id := range all[:many/2] {
						w.edit(id, 8, 1)
					}
					w.edit(identities[7], 8, 1)
					<-time.After(time.Minute)
					w.onCluster(func(cl *cluster) { cl.weather = c.weather })
					if restart {
						w.start(w.stop(true))
					}
					for _, id := range all {
						w.edit(id, 8, 2)
					}
					began := time.Now()
					late := func() (n int) {
						reports := w.reportsOf()
						for _, id := range all[many/2:] { // which are new
							if reports["s/"+id.String()].State != wire.Applied {
								n++
							}
						}
						return n
					}
					halted := time.Duration(0)
					for n := late(); n > 0; n = late() {
						// Which request the cluster takes is chance, so the last object can need many tries.
						if time.Since(began) > time.Hour {
							t.Fatalf("%d of %d are not applied after %s; the agent says %q", n, many, time.Since(began), w.agent.Halted())
						}
						<-time.After(time.Second)
						if w.agent.Halted() != "" {
							halted += time.Second
						}
					}
					t.Logf("all are applied after %s; the agent was halted for %s", time.Since(began), halted)
					<-time.After(10 * time.Minute)
					if why := w.agent.Halted(); why != "" {
						t.Errorf("the agent says %q", why)
					}
				})
			})
		}
	}
}
