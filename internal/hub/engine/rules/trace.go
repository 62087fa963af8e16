package rules

import (
	"context"
	"encoding/json"

	"orrery.dev/orrery/internal/hub/engine/expression"
)

// Effect is what one rule does to an object.
type Effect struct {
	Customizer string `json:"customizer"`
	Rule       int    `json:"rule"`
	Path       string `json:"path"`
	// Changes are the places that the path leads to; empty if it leads to none. Omitted is
	// how many more there are.
	Changes []Change `json:"changes,omitempty"`
	Omitted int      `json:"omitted,omitempty"`
	// Error says why the rule fails; later rules are then not applied.
	Error string `json:"error,omitempty"`
}

// Change is the value at one place before a rule and after it, as JSON; nil where there is
// none.
type Change struct {
	At     string          `json:"at"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

const (
	// maxTraced bounds the changes of one rule that are told, and maxTracedBytes the values
	// of all of them together.
	maxTraced      = 100
	maxTracedBytes = 256 << 10
)

// Trace applies rules as Apply does, and tells what each of them does. The one that fails
// is the last. An error of a context that ended is an expression.ErrInterrupted.
func (e *Engine) Trace(ctx context.Context, object []byte, inputs []Input) ([]Effect, error) {
	t := &trace{room: maxTracedBytes}
	_, err := e.apply(ctx, object, inputs, t)
	if t.failed && ctx.Err() == nil {
		err = nil // an Effect says it
	}
	return t.effects, err
}

// trace has what rules did. A nil trace notes nothing.
type trace struct {
	effects []Effect
	room    int
	failed  bool
}

func (t *trace) begin(customizer string, of *rule) {
	if t != nil {
		t.effects = append(t.effects, Effect{Customizer: customizer, Rule: of.index, Path: of.text})
	}
}

func (t *trace) fail(err *RuleError) {
	if t != nil {
		t.effects[len(t.effects)-1].Error, t.failed = err.Message, true
	}
}

// note notes the value that comes to a place, which still has the one before; nil: it is
// removed. What is noted is a copy, since later rules change values in place.
func (t *trace) note(p place, after any) {
	if t == nil {
		return
	}
	e := &t.effects[len(t.effects)-1]
	if len(e.Changes) >= maxTraced || t.room <= 0 {
		e.Omitted++
		return
	}
	c := Change{At: describe(p.at)}
	if p.there {
		c.Before = expression.Encode(p.value)
	}
	if after != nil {
		c.After = expression.Encode(after)
	}
	if t.room -= len(c.Before) + len(c.After); t.room < 0 {
		e.Omitted++
		return
	}
	e.Changes = append(e.Changes, c)
}
