package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/protocol/ownership"
)

// play plays a schedule.
func (c *crew) play(schedule []step) error {
	for i, k := range c.keys() {
		if i%3 > 0 {
			c.edit(k, i)
		}
	}
	if err := c.awaitSettled(); err != nil {
		return err
	}
	for _, s := range schedule {
		c.revive(false)
		c.act(s)
		if err := c.wrong(); err != nil {
			return err
		}
		if s.c%5 == 0 {
			if err := c.awaitSettled(); err != nil {
				return err
			}
		}
	}
	return c.awaitSettled()
}

func (c *crew) wrong() error {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	c.watch()
	if len(c.bad) > 0 {
		return errors.New(strings.Join(c.bad, "\n"))
	}
	return nil
}

// revive notices which agents have ended or died, and starts them again, if all are to run.
func (c *crew) revive(all bool) {
	for _, l := range slices.Clone(c.lives) {
		over := l.line.dead.Load()
		select {
		case <-l.ended:
			over = true
		default:
		}
		if over {
			c.stop(l, false)
			if number := l.shard.Number(); number <= c.hub.shards && c.running(number) == nil {
				c.start(number)
			}
		}
	}
	if all {
		c.staff()
	}
}

// pass lets time pass, and checks which agents act.
func (c *crew) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		<-time.After(min(500*time.Millisecond, time.Until(end)))
		c.cluster.mu.Lock()
		c.watch()
		c.cluster.mu.Unlock()
	}
}

// keys are what schedules are about: some that only one space has, and some that all want.
func (c *crew) keys() (all []string) {
	for _, s := range c.spaces {
		for _, path := range []string{
			"core/namespaces/a", widgetsCRD.String(), "core/configmaps/a/both",
			"core/configmaps/a/" + string(s), "core/configmaps/" + string(s) + "/x", "example.com/widgets/a/" + string(s), "batch/jobs/a/" + string(s),
		} {
			all = append(all, string(s)+"/"+path)
		}
	}
	return all
}

// act does one step: something goes wrong, or is changed, then there is something to do, and
// time goes by.
func (c *crew) act(s step) {
	all := c.keys()
	k := all[s.a%len(all)]
	switch n := s.do % 100; {
	case n < 10:
		c.drop(k)
	case n < 14:
		c.dropAll(c.spaces[s.b%len(c.spaces)])
	case n < 26:
		c.tamper(k, s.b, s.c)
	case n < 32:
		c.change(s.b)
	case n < 38:
		c.disturb(s.b)
	case n < 74:
		c.hurt(s.b, s.c)
	case n < 92:
		c.share(1+s.b%3, s.c)
	}
	for i := range s.b % 6 {
		c.edit(all[(s.a+i*5)%len(all)], s.b+i)
	}
	if s.a%5 == 0 {
		c.drop(all[(s.a+7)%len(all)])
	}
	c.pass([]time.Duration{0, 50 * time.Millisecond, time.Second, 3 * time.Second, 8 * time.Second, 15 * time.Second, 50 * time.Second}[s.a%7])
}

// share has another number of agents share the location. Those of the former end as they
// should, or are killed, or still run.
func (c *crew) share(n, how int) {
	c.tell("%d shards instead of %d", n, c.hub.shards)
	c.hub.mu.Lock()
	c.hub.shards = n
	c.hub.say()
	c.hub.mu.Unlock()
	switch how % 4 {
	case 0:
		c.staff()
	case 1:
		for _, l := range slices.Clone(c.lives) {
			c.stop(l, false)
		}
		c.staff()
	case 2: // one number after the other
		for number := 1; number <= n; number++ {
			if l := c.running(number); l != nil && l.shard.Total() != n {
				c.stop(l, true)
				c.start(number)
				break
			}
		}
	}
}

// hurt does something to one of the agents.
func (c *crew) hurt(b, how int) {
	number := 1 + b%max(1, c.hub.shards)
	l := c.running(number)
	if l == nil {
		c.start(number)
		return
	}
	switch how % 11 {
	case 0:
		c.tell("kill %s after %d writes", l.name, 1+b%4)
		c.cluster.mu.Lock()
		l.line.last = 1 + b%4
		c.cluster.mu.Unlock()
	case 1:
		c.stop(l, false)
		c.start(number)
	case 2:
		c.stop(l, b%2 == 0)
	case 3, 4, 9, 10:
		far := !l.line.far.Load()
		c.tell("%s hears nothing from the cluster: %t", l.name, far)
		l.line.far.Store(far)
		c.wake()
	case 5:
		c.evict(l.shard.Number())
	case 6:
		c.tell("%s loses its store", l.name)
		c.stop(l, false)
		c.stores[number] = c.fresh()
		c.start(number)
	case 7: // beside the one that runs
		if l.shard.Whole() {
			return // only one agent of the whole location is allowed
		}
		if err := c.begin(c.fresh(), l.shard); err != nil {
			c.t.Error(err)
		}
	default:
		c.stop(l, true)
		c.start(number)
	}
}

func (c *crew) wake() {
	c.cluster.mu.Lock()
	c.cluster.wake()
	c.cluster.mu.Unlock()
}

// leaseOf returns the name of the Lease of a shard.
func (c *crew) leaseOf(number int) string {
	return fmt.Sprintf("orrery-%s-%d", ownership.NewOwner("paris", c.hub.uid), number)
}

// evict deletes the Lease of a number.
func (c *crew) evict(number int) {
	name := c.leaseOf(number)
	c.tell("evict %s", name)
	c.cluster.mu.Lock()
	c.cluster.evict(name)
	c.cluster.mu.Unlock()
}

// change changes how the hub answers.
func (c *crew) change(b int) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	m := mood{}
	switch b % 5 {
	case 0:
		m.away = true
	case 1:
		m.slow = 2 * time.Second
	case 2:
		m.cut = 2000
	case 3:
		c.hub.start()
	}
	c.hub.mood = m
	c.tell("the hub: %+v", m)
	c.hub.say()
}

// disturb changes how the cluster answers.
func (c *crew) disturb(b int) {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	c.cluster.weather = []weather{{refuse: 20}, {breaks: 20}, {lose: 30}, {slow: 2 * time.Second, lag: 3 * time.Second}, {hang: 10, lose: 5}, {}}[b%6]
	c.tell("the cluster: %+v", c.cluster.weather)
}

// awaitSettled ends all faults, starts all agents, and waits until the state is as desired.
func (c *crew) awaitSettled() error {
	c.tell("settle")
	c.hub.mu.Lock()
	c.hub.mood = mood{}
	c.hub.say()
	c.hub.mu.Unlock()
	c.cluster.mu.Lock()
	c.cluster.weather = weather{}
	c.cluster.mu.Unlock()
	for _, l := range c.lives {
		l.line.far.Store(false)
	}
	c.wake()
	c.revive(true)
	for start, wait := time.Now(), 200*time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		synctest.Wait()
		if err := c.wrong(); err != nil {
			return err
		}
		err := c.check()
		if err == nil {
			break
		}
		if time.Since(start) > settleTimeout {
			return fmt.Errorf("not settled after %s: %w", settleTimeout, err)
		}
		c.revive(true)
		c.clear()
		c.pass(wait)
	}
	c.tell("settled")
	c.pass(2 * time.Second)
	synctest.Wait()
	if err := c.check(); err != nil && !errors.Is(err, errNotActing) { // it may have to look at its Lease anew
		return fmt.Errorf("it was settled and did not stay so: %w", err)
	}
	c.hub.mu.Lock()
	content := c.hub.content(c.hub.revision)
	c.cluster.mu.Lock()
	maps.DeleteFunc(c.dropped, func(k string, _ bool) bool { return content[k].Put != nil })
	c.cluster.mu.Unlock()
	c.hub.mu.Unlock()
	return c.wrong()
}

// clear has an operator delete Leases of agents that have ended for good.
func (c *crew) clear() {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.cluster.leases)) {
		l := c.cluster.leases[name]
		holder := ""
		if l.Spec.HolderIdentity != nil {
			holder = *l.Spec.HolderIdentity
		}
		_, total, _ := strings.Cut(l.Annotations["orrery.dev/shard"], "/")
		former := total != fmt.Sprint(c.hub.shards)
		if c.hub.shards == 1 || former && holder != "" {
			c.tell("the operator deletes %s, held by %q for %s", name, holder, l.Annotations["orrery.dev/shard"])
			c.cluster.evict(name)
		}
	}
}
