// Package preview computes the effects of a write of a Placement or a Customizer for dry runs:
// counts of objects by location.
//
// It must not have rules of its own: package placement derives the Memberships after the write, and
// package render the renderings. It only reads, its work is bounded, and it counts only objects
// that the reader may list or get.
package preview

import (
	"context"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// maxObjects bounds the objects that are evaluated for one request. 50,000 objects take about
	// 0.2 s of CPU time and 100 MB of memory.
	maxObjects = 50_000
	// maxRenderings and timeout bound the renderings for one request. The effect of a Customizer is
	// only known after rendering.
	maxRenderings = 5000
	timeout       = 3 * time.Second
)

// Config contains the dependencies of a Previewer.
type Config struct {
	Table *table.Table
	// Renderer renders objects by the rules of Rules.
	Renderer *render.Renderer
	// Compilers are those of the placement.Engine.
	placement.Compilers
	// May reports whether the user of a request may use a verb on an object or, if it has no name,
	// on all objects of its kind and namespace; nil: always.
	May func(ctx context.Context, verb string, o key.Object) bool
	Now func() time.Time
}

// Previewer computes previews. It is safe for concurrent use. It serves one request at a time, so
// that its memory is bounded.
type Previewer struct {
	Config
	turn chan struct{}
	// lower in tests
	objects, renderings int
}

// New returns a Previewer.
func New(config Config) *Previewer {
	return &Previewer{Config: config, turn: make(chan struct{}, 1), objects: maxObjects, renderings: maxRenderings}
}

// Tell describes, in a few lines, the effects of a Placement or Customizer with a new value; nil
// for its deletion. It returns nothing for other objects.
func (t *Previewer) Tell(ctx context.Context, policy key.Object, value []byte) []string {
	if policy.Resource != key.Placements && policy.Resource != key.Customizers {
		return nil
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return nil
	}
	state := t.Table.Snapshot()
	old := state.Get(policy.Key())
	a := &answer{Previewer: t, lists: t.listing(ctx), until: t.Now().Add(timeout)}
	if value != nil {
		a.row = &table.Row{Entry: table.NewEntry(policy.Key(), value, createRev(old), state.Rev)}
	}
	s := placement.Supposition{State: state, Policy: policy, Row: a.row, Compilers: t.Compilers, Most: t.objects}
	if policy.Resource == key.Placements {
		a.unlisted = a.remarks(reachOf(policy.Space, old, a.row)...)
		return a.moves(s, old)
	}
	return append(a.changes(s), a.remarks(policy.Space)...)
}

func createRev(row *table.Row) int64 {
	if row == nil {
		return 0
	}
	return row.CreateRev
}

// answer is the state of one request.
type answer struct {
	*Previewer
	row   *table.Row
	lists func(key.Object) bool
	// until is the time limit for renderings.
	until time.Time
	// unlisted is a note for users that may not list all objects.
	unlisted []string
	// whole reports whether all objects were evaluated.
	whole bool
}

// listing returns a function that reports whether the user of a request may list objects like a
// given one, or get it.
func (t *Previewer) listing(ctx context.Context) func(key.Object) bool {
	known := map[key.Object]bool{}
	return func(o key.Object) bool {
		like := o
		like.Name = ""
		may, ok := known[like]
		if !ok {
			may = t.May == nil || t.May(ctx, "list", like)
			known[like] = may
		}
		return may || o.Name != "" && t.May(ctx, "get", o)
	}
}

// reachOf returns the spaces whose objects a Placement may place, before or after.
func reachOf(s key.Space, rows ...*table.Row) []key.Space {
	for _, row := range rows {
		if s == key.Root && row != nil && gjson.GetBytes(row.Value, "spec.spaces").Exists() {
			return []key.Space{s, key.AllSpaces}
		}
	}
	return []key.Space{s}
}

// remarks returns a note for users that may not list all objects in some spaces. It does not depend
// on which objects exist.
func (a *answer) remarks(spaces ...key.Space) []string {
	for _, s := range spaces {
		if !a.lists(key.Object{Space: s, Identity: key.Identity{Resource: key.NewResource("*", "*")}}) {
			return []string{"objects that you may neither list nor get are not counted"}
		}
	}
	return nil
}
