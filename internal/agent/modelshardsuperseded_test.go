package agent

import (
	"testing"
	"time"

	"orrery.dev/orrery/internal/agent/store"
)

// TestModelShardSuperseded shows that an agent of a shard that another one with another store has superseded lets go of
// its Lease, so that the other acts at once, and takes none again: not when the other has ended, nor after a restart
// with a hub that would let it in.
func TestModelShardSuperseded(t *testing.T) {
	runCrew(t, 2, func(c *crew) {
		inside := string(c.falling(1, 2)) + "/core/configmaps/a/x"
		c.edit(inside, 1)
		c.mustSettle("one of each")
		former := c.running(1)
		if err := c.begin(c.fresh(), former.shard); err != nil {
			t.Fatal(err)
		}
		latter := c.lives[len(c.lives)-1]
		acts := func(what string, l *life, want bool) {
			t.Helper()
			if _, _, err := l.fence.Held(); (err == nil) != want {
				t.Errorf("%s: %s acts: %t: %v", what, l.name, !want, err)
			}
		}
		c.pass(30 * time.Second)
		acts("both run", former, true)
		acts("both run", latter, false)

		former.apart.supersedes.Store(true)
		c.hub.mu.Lock()
		c.hub.start() // which ends the sessions
		c.hub.mu.Unlock()
		for range 2 { // an agent that has waited takes the Lease, ends, and begins with a new store
			c.pass(15 * time.Second)
			select {
			case <-latter.ended:
				c.stop(latter, false)
				if err := c.begin(latter.config.DataDir, latter.shard); err != nil {
					t.Fatal(err)
				}
				latter = c.lives[len(c.lives)-1]
			default:
			}
		}
		acts("superseded", former, false)
		acts("superseded", latter, true)
		c.edit(inside, 2)
		c.mustSettle("the latter has the shard")

		own, left := former.config.DataDir, latter.config.DataDir
		c.stop(former, true)
		if err := c.begin(own, former.shard); err != nil {
			t.Fatal(err)
		}
		again := c.lives[len(c.lives)-1]
		c.stop(latter, true)
		for range 12 {
			c.pass(10 * time.Second)
			acts("started again", again, false)
		}
		if s := again.Status(); s.Halt != store.Superseded {
			t.Errorf("it says %+v", s)
		}
		c.stop(again, true)
		c.stores[again.shard.Number()] = left
		c.mustSettle("the latter has started again")
	})
}
