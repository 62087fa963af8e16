package aggregate

import (
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"orrery.dev/orrery/internal/hub/engine/expression"
	"orrery.dev/orrery/internal/protocol/key"
)

// Input holds the variables for one object at one location. Values are decoded at their first use,
// once for all Summaries.
type Input struct {
	Object, Status *Tree
	// Place is the variable location, see Location; Sync holds the Values of a Sync.
	Place, Sync map[string]any
	// Known caches the results of expressions for several Summaries with the same input; nil for no
	// cache.
	Known Known
	// item is the present element of forEach.
	item ref.Val
}

// Known caches the results of expressions for one Input. It is not safe for concurrent use.
type Known map[*program]given

// given is the result of an expression and its cost.
type given struct {
	value Value
	cost  uint64
	err   error
}

var _ interpreter.Activation = Input{}

// ResolveName implements interpreter.Activation.
func (in Input) ResolveName(name string) (any, bool) {
	switch name {
	case varObject:
		return in.Object.value(), true
	case varStatus:
		return in.Status.value(), true
	case varLocation:
		return in.Place, true
	case varSync:
		return in.Sync, true
	case varItem:
		return in.item, in.item != nil
	}
	return nil, false
}

// Parent implements interpreter.Activation.
func (Input) Parent() interpreter.Activation { return nil }

// Tree is a JSON object that is decoded at its first use. It is not safe for concurrent use; nil is
// an empty object.
type Tree struct {
	raw     []byte
	decoded map[string]any
}

// NewTree returns a Tree of JSON, which must not change. Other JSON than an object becomes an empty
// object.
func NewTree(raw []byte) *Tree { return &Tree{raw: raw} }

func (t *Tree) value() map[string]any {
	if t == nil {
		return map[string]any{}
	}
	if t.decoded == nil {
		decoded, _ := expression.Decode(t.raw)
		if t.decoded, _ = decoded.(map[string]any); t.decoded == nil {
			t.decoded = map[string]any{}
		}
		t.raw = nil
	}
	return t.decoded
}

// Location returns the variable location; properties are JSON, empty if there are none.
func Location(name key.Location, labels map[string]string, properties []byte) map[string]any {
	all := make(map[string]any, len(labels))
	for k, v := range labels {
		all[k] = v
	}
	return map[string]any{"name": string(name), "labels": all, "properties": NewTree(properties).value()}
}

// Sync holds the state of an object at a location for the variable sync.
type Sync struct {
	State, Health, Since, Error string
	Applied, Stale              bool
	Generation                  int64
}

// Values returns the variable sync.
func (s Sync) Values() map[string]any {
	return map[string]any{
		"state": s.State, "applied": s.Applied, "health": s.Health, "generation": s.Generation,
		"stale": s.Stale, "since": s.Since, "error": s.Error,
	}
}
