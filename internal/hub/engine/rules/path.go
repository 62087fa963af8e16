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

// appended is the suffix of the path of a rule that appends to a list.
const appended = "[+]"

// path is the path of a rule.
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

// checkValue returns an error if the path cannot have a value.
func (p path) checkValue(value any) error {
	if value == nil {
		return errors.New("may not be null; remove: true removes a value")
	}
	if _, ok := value.(string); !ok && p.inMetadata() {
		return errors.New("must be a string, since labels and annotations are")
	}
	return nil
}

// place is one place that a path selects.
type place struct {
	location rulepath.Location
	// value is the present value; nil if there is none. there reports whether the place exists,
	// perhaps with null.
	value any
	there bool
}

// maxSteps bounds how many elements and fields of an object paths visit, over all rules.
const maxSteps = 100_000

// follow adds the places that segments select below a place. They include fields that do not exist,
// but not elements of lists that do not exist.
func (r *run) follow(segments []*spec.Segment, from place) error {
	if len(segments) == 0 {
		from.location = slices.Clone(from.location)
		r.places = append(r.places, from)
		return nil
	}
	fields, isObject := from.value.(map[string]any)
	elements, isList := from.value.([]any)
	next := func(name any, value any, there bool) error {
		if r.steps++; r.steps > maxSteps {
			return fmt.Errorf("paths lead through more than %d elements of the object", maxSteps)
		}
		return r.follow(segments[1:], place{append(from.location, name), value, there})
	}
	switch s := segments[0].Selectors()[0].(type) {
	case spec.Name:
		if from.value != nil && !isObject {
			return fmt.Errorf("%s is %s, not an object", describe(from.location), kindOf(from.value))
		}
		value, there := fields[string(s)]
		return next(string(s), value, there)
	case spec.Index:
		if from.value != nil && !isList {
			return fmt.Errorf("%s is %s, not a list", describe(from.location), kindOf(from.value))
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
		return fmt.Errorf("%s is %s, neither a list nor an object", describe(from.location), kindOf(from.value))
	}
	filter, _ := segments[0].Selectors()[0].(*spec.FilterSelector) // nil for [*]
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

// describe formats a place.
func describe(location rulepath.Location) string {
	var b strings.Builder
	b.WriteByte('$')
	for _, step := range location {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		case string:
			if strings.ContainsFunc(step, func(c rune) bool { return c == '.' || c == '/' || c == '[' || c == '"' || c == ' ' }) {
				fmt.Fprintf(&b, "[%q]", step)
			} else {
				b.WriteString("." + step)
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

// set sets a value at a place below v, and returns the new v. It adds missing objects on the way.
func set(v any, location rulepath.Location, value any) any {
	if len(location) == 0 {
		return value
	}
	switch step := location[0].(type) {
	case int:
		elements, _ := v.([]any)
		elements[step] = set(elements[step], location[1:], value)
		return elements
	case string:
		fields, _ := v.(map[string]any)
		if fields == nil {
			fields = map[string]any{}
		}
		fields[step] = set(fields[step], location[1:], value)
		return fields
	}
	return v
}

// remove removes the value at a place below v, and returns the new v.
func remove(v any, location rulepath.Location) any {
	switch step := location[0].(type) {
	case int:
		elements, _ := v.([]any)
		if len(location) == 1 {
			return slices.Delete(elements, step, step+1)
		}
		elements[step] = remove(elements[step], location[1:])
		return elements
	case string:
		fields, _ := v.(map[string]any)
		if len(location) == 1 {
			delete(fields, step)
		} else {
			fields[step] = remove(fields[step], location[1:])
		}
		return fields
	}
	return v
}
