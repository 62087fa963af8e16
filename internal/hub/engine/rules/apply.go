package rules

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/rulepath"
)

const (
	// maxResult bounds the size of an object after rules, in bytes. API servers accept no more.
	maxResult = 1536 << 10
	// maxDepth bounds the nesting of lists and objects after rules. Stored objects may have half of
	// it, and some JSON decoders have a limit above it.
	maxDepth = 256
	// maxCost bounds the total cost of the expressions for one object.
	maxCost = 100_000
)

// rule is a compiled rule: it has a program, a value, or remove.
type rule struct {
	index   int
	path    path
	text    string // the path as it is written
	value   any
	program *program
	remove  bool
	// strict reports whether the rule fails if it has nothing to change.
	strict bool
	// broken is the error of an unusable rule.
	broken error
}

// run is the application of rules to one object.
type run struct {
	ctx      context.Context //nolint:containedctx // it lives as long as the call that applies the rules
	object   map[string]any
	original identity
	// ofLocation and ofSpace are the values of the location and the space for expressions.
	ofLocation, ofSpace map[string]any
	// data holds the texts of ConfigMaps for expressions, by name and key.
	data map[string]any
	// places are the places of the current rule; steps counts the values that paths have visited.
	places []place
	steps  int
	// customizers counts the Customizers so far, the current one included.
	customizers int
	// cost is the cost of expressions so far, and room the number of bytes that may still be added.
	cost uint64
	room int
	// trace records the changes of each rule; it may be nil.
	trace *trace
}

// Errors of a strict rule that has nothing to change.
var (
	errMissing = errors.New("its path selects nothing, and nothing can be added")
	errNoSelf  = errors.New("its path selects nothing that its expression could use as self")
)

// apply applies one rule. Its expression is evaluated for all places before any of them changes, so
// that their order does not matter.
func (r *run) apply(rule *rule) error {
	r.places = r.places[:0]
	if err := r.follow(rule.path.segments, place{value: r.object, there: true}); err != nil {
		return err
	}
	places := slices.DeleteFunc(r.places, func(p place) bool {
		return rule.remove && !p.there || rule.program != nil && rule.program.self && p.value == nil
	})
	if len(places) == 0 {
		switch {
		case !rule.strict:
			return nil
		case rule.program != nil && rule.program.self:
			return errNoSelf
		}
		return errMissing
	}
	if rule.remove {
		for _, p := range slices.Backward(places) { // for lists, the last element first
			r.trace.record(p, nil)
			remove(r.object, p.location)
		}
		return nil
	}
	values := make([]any, len(places))
	for i, p := range places {
		var err error
		if values[i], err = r.valueFor(rule, p); err != nil {
			return err
		}
	}
	for i, p := range places {
		r.trace.record(p, values[i])
		set(r.object, p.location, values[i])
	}
	return nil
}

// valueFor returns the value that a rule sets at a place.
func (r *run) valueFor(rule *rule, p place) (any, error) {
	value := rule.value
	if rule.program != nil {
		var err error
		if value, err = rule.program.eval(r, p.value); err != nil {
			return nil, err
		}
		if err := rule.path.checkValue(value); err != nil {
			return nil, fmt.Errorf("the expression gives %s at %s, which %w", kindOf(value), describe(p.location), err)
		}
	} else {
		if r.room -= sizeOf(value); r.room < 0 {
			return nil, errTooMuch
		}
		value = runtime.DeepCopyJSONValue(value)
	}
	if !rule.path.appends {
		return value, nil
	}
	elements, isList := p.value.([]any)
	if p.value != nil && !isList {
		return nil, fmt.Errorf("%s is %s, not a list", describe(p.location), kindOf(p.value))
	}
	if slices.ContainsFunc(elements, func(e any) bool { return reflect.DeepEqual(e, value) }) {
		return elements, nil
	}
	return append(slices.Clone(elements), value), nil
}

var errTooMany = fmt.Errorf("more than %d Customizers have rules for the object at this location", rulepath.MaxCustomizers)

var errTooDeep = fmt.Errorf("rules lay more than %d lists and objects in each other", maxDepth)

var errTooMuch = fmt.Errorf("rules add more than %d bytes to the object", maxResult)

// sizeOf returns the approximate size of a value as JSON.
func sizeOf(v any) int {
	size := 2
	switch v := v.(type) {
	case map[string]any:
		for name, below := range v {
			size += len(name) + 4 + sizeOf(below)
		}
	case []any:
		for _, below := range v {
			size += 1 + sizeOf(below)
		}
	case string:
		size += len(v)
	case fmt.Stringer: // a number
		size += len(v.String())
	}
	return size
}

// identity holds the fields of an object that no rule may change: its kind, its name, and Orrery's
// own metadata.
type identity struct {
	kind     [2]any
	metadata map[string]any
	ours     map[string]any
}

func identityOf(object map[string]any) identity {
	metadata, _ := object["metadata"].(map[string]any)
	id := identity{kind: [2]any{object["apiVersion"], object["kind"]}, metadata: map[string]any{}, ours: map[string]any{}}
	for name, value := range metadata {
		if name != "labels" && name != "annotations" {
			id.metadata[name] = value
			continue
		}
		all, _ := value.(map[string]any)
		for k, v := range all {
			if strings.HasPrefix(k, v1alpha1.Group+"/") {
				id.ours[name+"/"+k] = v
			}
		}
	}
	return id
}

// check fails if the object has another identity now. Paths cannot select these fields; this is a
// second check.
func (id identity) check(object map[string]any) error {
	now := identityOf(object)
	if !reflect.DeepEqual(now, id) {
		return errors.New("it would change what identifies the object")
	}
	return nil
}
