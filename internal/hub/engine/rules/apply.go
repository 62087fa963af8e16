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
	// maxResult bounds what rules make of an object, in bytes: no API server takes more.
	maxResult = 1536 << 10
	// maxDepth bounds how many lists and objects lie in each other in what rules make: what
	// is stored has half of it, and JSON is not decoded everywhere that has more.
	maxDepth = 256
	// maxCost bounds what the expressions for one object cost together.
	maxCost = 100_000
)

// rule is a compiled rule: it has a program, a value, or removes.
type rule struct {
	index   int
	path    path
	text    string // the path as it is written
	value   any
	program *program
	remove  bool
	// strict says that it fails where there is nothing to change.
	strict bool
	// broken says why the rule can't be used.
	broken error
}

// run is the application of rules to one object.
type run struct {
	ctx    context.Context //nolint:containedctx // it lives as long as the call that applies the rules
	object map[string]any
	was    identity
	// ofLocation and ofSpace are what the rules see of the location and the space.
	ofLocation, ofSpace map[string]any
	// data is what they see of ConfigMaps: texts by key, by name.
	data map[string]any
	// places are those of the present rule, steps how many values paths have visited.
	places []place
	steps  int
	// customizers counts those whose rules were applied, or are being.
	customizers int
	// cost is what expressions have cost, and room how many bytes may still be added.
	cost uint64
	room int
	// trace is told what each rule changes; nil: nobody is.
	trace *trace
}

// A rule that has nothing to change fails by one of these, if it is strict.
var (
	errMissing = errors.New("its path selects nothing, and nothing can be added")
	errNoSelf  = errors.New("its path selects nothing that its expression could use as self")
)

// apply applies one rule. Its expression is evaluated for all places before any of them is
// changed, so that their order does not matter.
func (r *run) apply(of *rule) error {
	r.places = r.places[:0]
	if err := r.follow(of.path.segments, place{value: r.object, there: true}); err != nil {
		return err
	}
	places := slices.DeleteFunc(r.places, func(p place) bool {
		return of.remove && !p.there || of.program != nil && of.program.self && p.value == nil
	})
	if len(places) == 0 {
		switch {
		case !of.strict:
			return nil
		case of.program != nil && of.program.self:
			return errNoSelf
		}
		return errMissing
	}
	if of.remove {
		for _, p := range slices.Backward(places) { // of a list, the last first
			r.trace.note(p, nil)
			remove(r.object, p.at)
		}
		return nil
	}
	values := make([]any, len(places))
	for i, p := range places {
		var err error
		if values[i], err = r.valueFor(of, p); err != nil {
			return err
		}
	}
	for i, p := range places {
		r.trace.note(p, values[i])
		set(r.object, p.at, values[i])
	}
	return nil
}

// valueFor is what a rule puts at a place.
func (r *run) valueFor(of *rule, p place) (any, error) {
	value := of.value
	if of.program != nil {
		var err error
		if value, err = of.program.eval(r, p.value); err != nil {
			return nil, err
		}
		if err := of.path.takes(value); err != nil {
			return nil, fmt.Errorf("the expression gives %s at %s, which %w", kindOf(value), describe(p.at), err)
		}
	} else {
		if r.room -= sizeOf(value); r.room < 0 {
			return nil, errTooMuch
		}
		value = runtime.DeepCopyJSONValue(value)
	}
	if !of.path.appends {
		return value, nil
	}
	elements, isList := p.value.([]any)
	if p.value != nil && !isList {
		return nil, fmt.Errorf("%s is %s, not a list", describe(p.at), kindOf(p.value))
	}
	if slices.ContainsFunc(elements, func(e any) bool { return reflect.DeepEqual(e, value) }) {
		return elements, nil
	}
	return append(slices.Clone(elements), value), nil
}

var errTooMany = fmt.Errorf("more than %d Customizers have rules for the object at this location", rulepath.MaxCustomizers)

var errTooDeep = fmt.Errorf("rules lay more than %d lists and objects in each other", maxDepth)

var errTooMuch = fmt.Errorf("rules add more than %d bytes to the object", maxResult)

// sizeOf is about how many bytes a value has as JSON.
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

// identity is what no rule may change of an object: its kind, its name, and what Orrery
// says about it.
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

// check fails if an object is another one now. Paths don't lead there; it is checked all the same.
func (id identity) check(object map[string]any) error {
	now := identityOf(object)
	if !reflect.DeepEqual(now, id) {
		return errors.New("it would change what identifies the object")
	}
	return nil
}
