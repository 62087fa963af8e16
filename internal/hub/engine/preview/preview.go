// Package preview says what a write of a Placement or a Customizer would move or change,
// for dry runs: counts of objects by location.
//
// It must never judge by itself: memberships are those that placement derives for the state
// that would be, and renderings those of render. It only reads, what it looks at is bounded,
// and it counts only objects that the reader may list or get.
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
	// maxObjects bounds the objects that are looked at for one answer. 50,000 take about
	// 0.2 s of a processor and 100 MB meanwhile.
	maxObjects = 50_000
	// maxRenderings and patience bound what is rendered for one answer: what a Customizer
	// changes is only known by rendering it.
	maxRenderings = 5000
	patience      = 3 * time.Second
)

// Config is what a Previewer needs.
type Config struct {
	Table *table.Table
	// Renderer renders objects by the rules that Rules gives.
	Renderer *render.Renderer
	Rules    placement.RulesOf
	// May says whether who sends the request of a context may do something with an object,
	// or, if it has no name, with those of its kind and namespace; nil: they may.
	May func(ctx context.Context, verb string, o key.Object) bool
	Now func() time.Time
}

// Previewer foretells. It is safe for concurrent use; one question is answered at a time, so
// that its memory is bounded.
type Previewer struct {
	Config
	turn chan struct{}
	// bounds are lower in tests.
	objects, renderings int
}

// New makes a Previewer.
func New(config Config) *Previewer {
	return &Previewer{Config: config, turn: make(chan struct{}, 1), objects: maxObjects, renderings: maxRenderings}
}

// Tell says, in a few lines, what a Placement or Customizer would do as it would be stored:
// in value, or nil if it would be deleted. For any other object it says nothing.
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
	was := state.Get(policy.Key())
	a := &answer{Previewer: t, lists: t.listing(ctx), until: t.Now().Add(patience)}
	if value != nil {
		a.row = &table.Row{Entry: table.NewEntry(policy.Key(), value, createRev(was), state.Rev)}
	}
	s := placement.Supposition{State: state, Policy: policy, Row: a.row, Rules: t.Rules, Most: t.objects}
	if policy.Resource == key.Placements {
		return append(a.moves(s, was), a.remarks(reachOf(policy.Space, was, a.row)...)...)
	}
	return append(a.changes(s), a.remarks(policy.Space)...)
}

func createRev(row *table.Row) int64 {
	if row == nil {
		return 0
	}
	return row.CreateRev
}

// answer is what is found out for one question.
type answer struct {
	*Previewer
	row   *table.Row
	lists func(key.Object) bool
	// until is when no more is rendered.
	until time.Time
	// whole says that all objects were looked at.
	whole bool
}

// listing says whether the sender of a request may know of an object: list those like it,
// or get it.
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

// reachOf are the spaces of which a Placement may place objects, as it was or would be.
func reachOf(s key.Space, rows ...*table.Row) []key.Space {
	for _, row := range rows {
		if s == key.Root && row != nil && gjson.GetBytes(row.Value, "spec.spaces").Exists() {
			return []key.Space{s, key.AllSpaces}
		}
	}
	return []key.Space{s}
}

// remarks say what is not counted, to who may not list everything in some spaces: whether or
// not there is anything else.
func (a *answer) remarks(spaces ...key.Space) []string {
	for _, s := range spaces {
		if !a.lists(key.Object{Space: s, Identity: key.Identity{Resource: key.NewResource("*", "*")}}) {
			return []string{"objects that you may neither list nor get are not counted"}
		}
	}
	return nil
}
