package main

import (
	"errors"
	"fmt"
	"time"

	"orrery.dev/orrery/test/support/env"
)

// ownHub is a hub that a measurement has for itself, with simulated agents, to whose root and
// one of whose spaces there are clients.
type ownHub struct {
	growth
	*residents
}

// errMeasured ends the agents of a hub.
var errMeasured = errors.New("what the hub was for is measured")

// phase is a part of the measurement of such a hub.
type phase struct {
	name string
	run  func() error
}

// startOwn starts a hub for what a bench is to be measured by besides its own.
func (b *bench) startOwn(space string) (*bench, error) {
	own := &bench{t: b.t, ctx: b.ctx, size: b.size, report: b.report, idle: b.idle, cluster: b.cluster, hub: env.StartHub(b.t)}
	own.fleet = newFleet(own)
	for to, path := range map[**client]string{&own.root: "spaces/root", &own.space: "spaces/" + space} {
		c, err := newClient(own.hub.PathConfig(path))
		if err != nil {
			own.hub.Kill()
			return nil, err
		}
		*to = c
	}
	return own, nil
}

// newOwnHub starts an ownHub, which the caller must end.
func (b *bench) newOwnHub(space string) (ownHub, error) {
	own, err := b.startOwn(space)
	if err != nil {
		return ownHub{}, err
	}
	return ownHub{growth{bench: own}, &residents{fleet: own.fleet}}, nil
}

// end has all agents leave, and ends the hub.
func (h *ownHub) end() {
	h.fail(errMeasured)
	h.running.Wait()
	h.bench.hub.Kill()
}

// take takes the parts of a measurement one after the other.
func (h *ownHub) take(subject string, phases ...phase) error {
	for _, p := range phases {
		start := time.Now()
		if err := p.run(); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		h.bench.t.Logf("%s, %s: %s", subject, p.name, time.Since(start).Round(100*time.Millisecond))
	}
	return nil
}

// furnish makes spaces, and locations that serve what the cluster does, whose agents connect.
func (h *ownHub) furnish(spaces, sites int) error {
	apis, err := servedBy(h.bench.cluster)
	if err != nil {
		return err
	}
	if err := h.bench.makeSpaces(spaces); err != nil {
		return err
	}
	return h.join(sites, apis)
}

// grownBy returns the growth of the hub's memory by an action, in KB for each of n.
func (h *ownHub) grownBy(n int, do func() error) (float64, error) {
	if _, err := h.grown(1); err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	if err := h.bench.calmDown(); err != nil {
		return 0, err
	}
	return h.grown(n)
}
