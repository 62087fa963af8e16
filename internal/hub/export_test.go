package hub

import (
	"context"
	"net/http"

	"orrery.dev/orrery/internal/hub/agentapi"
	"orrery.dev/orrery/internal/hub/engine/computed"
	"orrery.dev/orrery/internal/hub/engine/helm"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/prune"
	"orrery.dev/orrery/internal/hub/engine/quota"
	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/engine/unreturned"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// Internals are parts of a hub that tests inspect, or prepare before the hub runs.
type Internals struct {
	Log      *etcd.Log
	Table    *table.Table
	Engine   *placement.Engine
	Usage    *quota.Usage
	Sessions *agentapi.Sessions
	Renderer *render.Renderer
	Pruned   *prune.Index
	Releases *helm.Index
	LeftOut  *unreturned.Index
	Statuses *computed.Statuses
	// Admitted serves authenticated requests.
	Admitted http.Handler
	// Arrivals receives the bodies of requests.
	Arrivals *respond.Arrivals
	// WaitCommitted waits until the table contains all acknowledged writes.
	WaitCommitted func(context.Context) error
}

// Made passes the parts of a hub to a function before the hub runs.
func (c *Config) Made(see func(Internals)) {
	c.made = func(h *Hub) {
		see(Internals{
			Log: h.log, Table: h.table, Engine: h.engine, Usage: h.usage, Sessions: h.sessions, Renderer: h.renderer,
			Pruned: h.pruned, Releases: h.releases, LeftOut: h.unreturned, Statuses: h.statuses,
			Admitted: h.front.named(http.HandlerFunc(h.front.route)), Arrivals: h.front.writes.Arrivals, WaitCommitted: h.gate.Committed,
		})
	}
}
