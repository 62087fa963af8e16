package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/support/env"
)

// fewNamespace has the first objects of 1 KB that the site's agent has many of.
const fewNamespace = "few"

func (b *bench) measureFew() error { return b.measureLoaded("few", b.size.few) }

// measureMany also has the agent connect anew.
func (b *bench) measureMany() error {
	if err := b.measureLoaded("many", b.size.many); err != nil {
		return err
	}
	return b.reconnect()
}

// loadFew has the site get objects as they are made.
func (b *bench) loadFew() error {
	n := b.size.few
	if err := b.namespace(fewNamespace); err != nil {
		return err
	}
	if err := b.fill(fewNamespace, n); err != nil {
		return err
	}
	if err := b.place(fewNamespace, "configmaps", n, v1alpha1.ReturnStatusNone); err != nil {
		return err
	}
	b.load = load{fewNamespace, n, time.Now()}
	return nil
}

// load is what the site got last: so many objects of a namespace, the last of them at a time.
type load struct {
	namespace string
	objects   int
	loadedAt  time.Time
}

// measureLoaded reads the memory of the site's agent, size.idle after the arrival of its last object. It
// restarts the agent twice: without changes, and with an object that another client changed while the agent was
// away. The memory of an object is the difference to an agent without objects, divided by the number of objects.
func (b *bench) measureLoaded(name string, n int) error {
	if b.load.objects != n {
		return fmt.Errorf("%d objects could not be placed", n)
	}
	if !wait(b.ctx, b.size.idle-time.Since(b.load.loadedAt)) {
		return b.ctx.Err()
	}
	idle, loaded := b.idle.agent.Usage(), b.agent.Usage()
	b.report.set("memory."+name, float64(loaded.RSSAnon-idle.RSSAnon)/1e3/float64(b.placed),
		"%d objects: %s, RSS %s, at rest for %s", b.placed, megabytes(loaded.RSSAnon), megabytes(loaded.RSS), time.Since(b.load.loadedAt).Round(time.Second))
	if err := b.restartUnchanged(name); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	if err := b.restartTampered(name); err != nil {
		return fmt.Errorf("restart with drift: %w", err)
	}
	return nil
}

// restartUnchanged counts what a restart takes when nothing has changed, until the
// agent has come to rest.
func (b *bench) restartUnchanged(name string) error {
	b.agent.Stop()
	up, down := b.link.Bytes()
	start := time.Now()
	b.agent.Start()
	took, err := b.comeToRest(start)
	if err != nil {
		return err
	}
	nowUp, nowDown := b.link.Bytes()
	writes := b.cluster.Requests(b.t, env.Filter{User: env.AgentUser, Writes: true, After: start})
	b.report.set("restart."+name+".writes", float64(len(writes)), "%d objects; at rest again after %s, CPU %s",
		b.placed, took.Round(100*time.Millisecond), b.agent.Usage().CPU)
	b.report.set("restart."+name+".bytes", float64(nowUp-up+nowDown-down)/1e3,
		"%.1f KB to the hub, %.1f KB from it, TLS included", float64(nowUp-up)/1e3, float64(nowDown-down)/1e3)
	return nil
}

// comeToRest waits until the agent has not done anything for as long as size.calm
// says, and returns how long after start it stopped.
func (b *bench) comeToRest(start time.Time) (time.Duration, error) {
	const nothing = 20 * time.Millisecond // of CPU time, for what a quiet agent does
	used, since := b.agent.Usage().CPU, time.Now()
	err := eventually(b.ctx, "the agent to come to rest", func() error {
		if now := b.agent.Usage().CPU; now > used+nothing {
			used, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < b.size.quietTime {
			return fmt.Errorf("it worked %s ago", quiet.Round(time.Millisecond))
		}
		return nil
	})
	return since.Sub(start), err
}

// restartTampered times a restart from the start of the process until an object
// that was changed before is as it should be, which is the last of its kind.
func (b *bench) restartTampered(name string) error {
	w, err := b.target.watch(b.ctx, configMaps(b.load.namespace))
	if err != nil {
		return err
	}
	defer w.close()
	b.agent.Stop()
	object := nameOf(b.load.objects - 1)
	path := configMaps(b.load.namespace) + "/" + object + "?fieldManager=another"
	if err := b.target.do(b.ctx, http.MethodPatch, path, mergePatch, []byte(`{"data":{"value":"tampered"}}`)); err != nil {
		return err
	}
	start := time.Now()
	b.agent.Start()
	ready := time.Since(start)
	arrived, err := w.until(b.ctx, "the repair", func(e event) bool {
		return e.name == object && gjson.GetBytes(e.object, "data.value").String() == "wanted"
	})
	if err != nil {
		return err
	}
	b.report.set("restart."+name+".repair", arrived.Sub(start).Seconds(), "%d objects; ready after %.2f s", b.placed, ready.Seconds())
	_, err = b.comeToRest(start)
	return err
}

// reconnect closes the agent's connections to the hub while both sides have the same content. It counts the
// traffic of the new ones until they are quiet: the bodies of requests and responses, where TLS ends on the way,
// and all data that TCP transports.
func (b *bench) reconnect() error {
	b.link.Redirect(b.front.server.URL) // the first time leads it there
	if err := b.quietLink(0); err != nil {
		return err
	}
	up, down := b.front.payload()
	wireUp, wireDown := b.link.Bytes()
	b.link.Redirect(b.front.server.URL)
	if err := b.quietLink(wireUp); err != nil {
		return err
	}
	nowUp, nowDown := b.front.payload()
	nowWireUp, nowWireDown := b.link.Bytes()
	b.report.set("reconnect.up", float64(nowUp-up), "%d objects", b.placed)
	b.report.set("reconnect.down", float64(nowDown-down), "%d objects", b.placed)
	b.report.set("reconnect.wire", float64(nowWireUp-wireUp+nowWireDown-wireDown)/1e3,
		"%d bytes to the hub, %d from it; TLS and HTTP included", nowWireUp-wireUp, nowWireDown-wireDown)
	b.link.Redirect(b.hub.URL)
	return b.quietLink(nowWireUp)
}

// quietLink waits until the agent has said something beyond a count, and nothing
// more for as long as size.calm says.
func (b *bench) quietLink(beyond int64) error {
	last, since := int64(-1), time.Now()
	return eventually(b.ctx, "the connection to be quiet", func() error {
		if up, _ := b.link.Bytes(); up != last {
			last, since = up, time.Now()
		}
		if quiet := time.Since(since); last <= beyond || quiet < b.size.quietTime {
			return fmt.Errorf("%d bytes in all, the last %s ago", last, quiet.Round(time.Millisecond))
		}
		return nil
	})
}

// fill makes ConfigMaps of 1 KB in a namespace of the space, by number.
func (b *bench) fill(namespace string, n int) error {
	return share(b.ctx, b.writers, n, func(ctx context.Context, c *client, i int) error {
		return c.create(ctx, configMaps(namespace), configMap(namespace, nameOf(i), 1<<10, "wanted"))
	})
}
