package rules

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/theory/jsonpath/spec"
	corev1 "k8s.io/api/core/v1"

	"orrery.dev/orrery/internal/protocol/rulepath"
)

// appended ends the path of a rule that appends to a list.
const appended = "[+]"

// path leads to the places that a rule changes.
type path struct {
	segments []*spec.Segment
	appends  bool
}

// parsePath parses the path of a rule.
func parsePath(text string) (p path, err error) {
	text, p.appends = strings.CutSuffix(text, appended)
	parsed, err := rulepath.Parse(text)
	if err != nil {
		if strings.Contains(text, appended) {
			err = fmt.Errorf("may have %s at its end only (%w)", appended, err)
		}
		return p, err
	}
	p.segments = parsed.Segments()
	if len(p.segments) == 3 && p.inMetadata() {
		if name, _ := p.segments[2].Selectors()[0].(spec.Name); string(name) == corev1.LastAppliedConfigAnnotation {
			return p, fmt.Errorf("may not select %s, which does not travel", corev1.LastAppliedConfigAnnotation)
		}
		if p.appends {
			return p, errors.New("may not append to a label or an annotation")
		}
	}
	return p, nil
}

func (p path) inMetadata() bool {
	name, _ := p.segments[0].Selectors()[0].(spec.Name)
	return name == "metadata"
}

// takes fails if a value can't be at the path.
func (p path) takes(value any) error {
	if value == nil {
		return errors.New("may not be null; remove: true removes a value")
	}
	if _, ok := value.(string); !ok && p.inMetadata() {
		return errors.New("must be a string, since labels and annotations are")
	}
	return nil
}

// place is one place that a path leads to.
type place struct {
	at rulepath.Location
	// value is what is there; nil if nothing is. There says that there is at least a null.
	value any
	there bool
}

// maxSteps bounds how many elements and fields of an object paths visit, over all rules.
const maxSteps = 100_000

// follow adds the places to which segments lead from a value, which is at the place at.
// Fields that are not there are places, too; elements of lists are not.
func (r *run) follow(segments []*spec.Segment, from place) error {
	if len(segments) == 0 {
		from.at = slices.Clone(from.at)
		r.places = append(r.places, from)
		return nil
	}
	fields, isObject := from.value.(map[string]any)
	elements, isList := from.value.([]any)
	next := func(name any, value any, there bool) error {
		if r.steps++; r.steps > maxSteps {
			return fmt.Errorf("paths lead through more than %d elements of the object", maxSteps)
		}
		return r.follow(segments[1:], place{append(from.at, name), value, there})
	}
	switch s := segments[0].Selectors()[0].(type) {
	case spec.Name:
		if from.value != nil && !isObject {
			return fmt.Errorf("%s is %s, not an object", describe(from.at), kindOf(from.value))
		}
		value, there := fields[string(s)]
		return next(string(s), value, there)
	case spec.Index:
		if from.value != nil && !isList {
			return fmt.Errorf("%s is %s, not a list", describe(from.at), kindOf(from.value))
		}
		i := int(s)
		if i < 0 {
			i += len(elements)
		}
		if i < 0 || i >= len(elements) {
			return nil
		}
		return next(i, elements[i], true)
	}
	if from.value != nil && !isList && !isObject {
		return fmt.Errorf("%s is %s, neither a list nor an object", describe(from.at), kindOf(from.value))
	}
	filter, _ := segments[0].Selectors()[0].(*spec.FilterSelector) // or else [*]
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if filter == nil || filter.Eval(fields[name], nil) {
			if err := next(name, fields[name], true); err != nil {
				return err
			}
		}
	}
	for i, e := range elements {
		if filter == nil || filter.Eval(e, nil) {
			if err := next(i, e, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// describe is a place for people.
func describe(at rulepath.Location) string {
	var b strings.Builder
	b.WriteByte('$')
	for _, part := range at {
		switch part := part.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", part)
		case string:
			if strings.ContainsFunc(part, func(c rune) bool { return c == '.' || c == '/' || c == '[' || c == '"' || c == ' ' }) {
				fmt.Fprintf(&b, "[%q]", part)
			} else {
				b.WriteString("." + part)
			}
		}
	}
	return b.String()
}

func kindOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case nil:
		return "null"
	}
	return "a number"
}

// set puts a value at a place below v, and gives what v is then. Objects that are missing
// on the way are added.
func set(v any, at rulepath.Location, value any) any {
	if len(at) == 0 {
		return value
	}
	switch part := at[0].(type) {
	case int:
		elements, _ := v.([]any)
		elements[part] = set(elements[part], at[1:], value)
		return elements
	case string:
		fields, _ := v.(map[string]any)
		if fields == nil {
			fields = map[string]any{}
		}
		fields[part] = set(fields[part], at[1:], value)
		return fields
	}
	return v
}

// remove removes what is at a place below v, and gives what v is then.
func remove(v any, at rulepath.Location) any {
	switch part := at[0].(type) {
	case int:
		elements, _ := v.([]any)
		if len(at) == 1 {
			return slices.Delete(elements, part, part+1)
		}
		elements[part] = remove(elements[part], at[1:])
		return elements
	case string:
		fields, _ := v.(map[string]any)
		if len(at) == 1 {
			delete(fields, part)
		} else {
			fields[part] = remove(fields[part], at[1:])
		}
		return fields
	}
	return v
}
