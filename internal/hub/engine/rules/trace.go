package rules

import (
	"context"
	"encoding/json"

	"orrery.dev/orrery/internal/hub/engine/expression"
)

// Effect is the effect of one rule on an object.
type Effect struct {
	Customizer string `json:"customizer"`
	Rule       int    `json:"rule"`
	Path       string `json:"path"`
	// Changes are the changes at the places that the path selects. Omitted counts those that are
	// left out.
	Changes []Change `json:"changes,omitempty"`
	Omitted int      `json:"omitted,omitempty"`
	// Error is the error of the rule, if it fails; later rules are not applied.
	Error string `json:"error,omitempty"`
}

// Change is the value at one place before and after a rule, as JSON; nil if there is none.
type Change struct {
	Path   string          `json:"at"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

const (
	// maxTraced bounds the changes of one rule, and maxTracedBytes the size of all values.
	maxTraced      = 100
	maxTracedBytes = 256 << 10
)

// Trace is Apply that also returns the effect of each rule. A failed rule is the last one. If the
// context ends, the error is an expression.ErrInterrupted.
func (e *Engine) Trace(ctx context.Context, object []byte, inputs []Input) ([]Effect, error) {
	t := &trace{room: maxTracedBytes}
	_, err := e.apply(ctx, object, inputs, t)
	if t.failed && ctx.Err() == nil {
		err = nil // the error is in an Effect
	}
	return t.effects, err
}

// trace records the effects of rules. A nil trace records nothing.
type trace struct {
	effects []Effect
	room    int
	failed  bool
}

func (t *trace) begin(customizer string, rule *rule) {
	if t != nil {
		t.effects = append(t.effects, Effect{Customizer: customizer, Rule: rule.index, Path: rule.text})
	}
}

func (t *trace) fail(err *RuleError) {
	if t != nil {
		t.effects[len(t.effects)-1].Error, t.failed = err.Message, true
	}
}

// record records the value that a rule sets at a place, whose value is still the previous one; nil: it is
// removed. It copies both values, since later rules change them in place.
func (t *trace) record(p place, after any) {
	if t == nil {
		return
	}
	e := &t.effects[len(t.effects)-1]
	if len(e.Changes) >= maxTraced || t.room <= 0 {
		e.Omitted++
		return
	}
	c := Change{Path: describe(p.location)}
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
