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

// Parts are what tests look into, or prepare before the hub runs.
type Parts struct {
	Log      *etcd.Log
	Table    *table.Table
	Engine   *placement.Engine
	Usage    *quota.Usage
	Sessions *agentapi.Sessions
	Renderer *render.Renderer
	Pruned   *prune.Index
	Releases *helm.Index
	LeftOut  *unreturned.Index
	Standing *computed.Statuses
	// Admitted serves what access has let in.
	Admitted http.Handler
	// Arrivals are bodies that arrive.
	Arrivals *respond.Arrivals
	// WaitCommitted has the table show all that was acknowledged before.
	WaitCommitted func(context.Context) error
}

// Made passes the parts of a hub to a function before the hub runs.
func (c *Config) Made(see func(Parts)) {
	c.made = func(h *Hub) {
		see(Parts{
			Log: h.log, Table: h.table, Engine: h.engine, Usage: h.usage, Sessions: h.sessions, Renderer: h.renderer,
			Pruned: h.pruned, Releases: h.releases, LeftOut: h.leftOut, Standing: h.standing,
			Admitted: h.front.named(http.HandlerFunc(h.front.route)), Arrivals: h.front.writes.Arrivals, WaitCommitted: h.gate.Committed,
		})
	}
}
