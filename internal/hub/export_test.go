package hub

import (
	"context"
	"net/http"

	"orrery.dev/orrery/internal/agents"
	"orrery.dev/orrery/internal/leftout"
	"orrery.dev/orrery/internal/limits"
	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/prune"
	"orrery.dev/orrery/internal/release"
	"orrery.dev/orrery/internal/render"
	"orrery.dev/orrery/internal/standing"
	"orrery.dev/orrery/internal/store"
	"orrery.dev/orrery/internal/table"
)

// Parts are what tests look into, or prepare before the hub runs.
type Parts struct {
	Log      *store.Log
	Table    *table.Table
	Engine   *placement.Engine
	Usage    *limits.Usage
	Sessions *agents.Sessions
	Renderer *render.Renderer
	Pruned   *prune.Index
	Releases *release.Index
	LeftOut  *leftout.Index
	Standing *standing.Standing
	// Admitted serves what access has let in.
	Admitted http.Handler
	// WaitCommitted has the table show all that was acknowledged before.
	WaitCommitted func(context.Context) error
}

// Made passes the parts of a hub to a function before the hub runs.
func (c *Config) Made(see func(Parts)) {
	c.made = func(h *Hub) {
		see(Parts{
			Log: h.log, Table: h.table, Engine: h.engine, Usage: h.usage, Sessions: h.sessions, Renderer: h.renderer,
			Pruned: h.pruned, Releases: h.releases, LeftOut: h.leftOut, Standing: h.standing,
			Admitted: h.front.named(http.HandlerFunc(h.front.route)), WaitCommitted: h.gate.Committed,
		})
	}
}
