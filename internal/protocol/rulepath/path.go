// Package rulepath parses the paths of Customizer rules and finds the values that they select in an
// object. Hub and agent both import it, so that an agent can follow each path that the hub accepts.
//
// It is pure. It must not depend on where an object comes from.
package rulepath

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"

	"orrery.dev/orrery/apis/v1alpha1"
)

// MaxCustomizers is the maximum number of Customizers that can change one object for one location
// by rules. Each takes time at each rendering.
const MaxCustomizers = 64

// maxPath is the maximum length of a path, in bytes.
const maxPath = 256

// Path selects values in an object. It is a subset of JSONPath (RFC 9535). Users write paths that
// agents follow, so following one costs no more than the values it visits. It starts with the name
// of a field and continues with names, indexes, [*] and filters for one string, such as
// [?@.name=="app"].
type Path struct{ segments []*spec.Segment }

// Parse parses a path. It rejects paths that are not in the subset, and paths that may select
// fields that identify the object.
func Parse(text string) (Path, error) {
	if len(text) > maxPath {
		return Path{}, fmt.Errorf("may not be longer than %d bytes", maxPath)
	}
	if strings.ContainsAny(text, "\r\n") {
		return Path{}, errors.New("must be on one line")
	}
	query, err := jsonpath.Parse(text)
	if err != nil {
		return Path{}, fmt.Errorf("not a JSONPath (RFC 9535): %w", err)
	}
	segments := query.Query().Segments()
	if err := simple(segments); err != nil {
		return Path{}, err
	}
	if err := allowed(segments); err != nil {
		return Path{}, err
	}
	return Path{segments}, nil
}

// Segments returns the segments of the path, each with one selector. The caller must not change
// them.
func (p Path) Segments() []*spec.Segment { return p.segments }

// oneString matches a filter that compares one value of an element with a string, in the notation
// of the library.
var oneString = regexp.MustCompile(`^\?@(\["(\\.|[^"\\])*"\])+ == "(\\.|[^"\\])*"$`)

// simple rejects selectors that are not in the subset. The remaining ones cost no more than the
// values they visit, and can't select a value twice.
func simple(segments []*spec.Segment) error {
	for _, s := range segments {
		switch {
		case s.IsDescendant():
			return errors.New(`may not have ".."`)
		case len(s.Selectors()) != 1:
			return errors.New("may have one selector only in each pair of brackets")
		}
		switch selector := s.Selectors()[0].(type) {
		case spec.Name, spec.Index, spec.WildcardSelector:
		case *spec.FilterSelector:
			if !oneString.MatchString(selector.String()) {
				return errors.New(`may have filters only that compare one value with a string, as in [?@.name=="app"]`)
			}
		default:
			return errors.New("may have names, indexes, [*] and filters only in brackets")
		}
	}
	return nil
}

// allowed rejects paths that may select apiVersion, kind, ownership metadata, status, or any
// metadata except single labels and annotations. These identify the object and its owner; status is
// not sent.
func allowed(segments []*spec.Segment) error {
	field, ok := name(segments, 0)
	if !ok {
		return errors.New("must begin with the name of a field, as in $.spec")
	}
	switch field {
	case "apiVersion", "kind":
		return fmt.Errorf("may not select %s", field)
	case "status":
		return errors.New("may not select status, which does not travel")
	case "metadata":
	default:
		return nil
	}
	switch field, ok = name(segments, 1); {
	case !ok || field != "labels" && field != "annotations":
		return errors.New("may select only single labels and annotations of metadata")
	}
	one, ok := name(segments, 2)
	if !ok || len(segments) > 3 {
		return fmt.Errorf("may select only single %s of metadata, by name", field)
	}
	if strings.HasPrefix(one, v1alpha1.Group+"/") {
		return fmt.Errorf("may not select %s, which is Orrery's", one)
	}
	return nil
}

// name returns the name of the field that the i-th segment selects; ok is false if the segment may
// select anything else.
func name(segments []*spec.Segment, i int) (field string, ok bool) {
	if i >= len(segments) {
		return "", false
	}
	n, ok := segments[i].Selectors()[0].(spec.Name)
	return string(n), ok
}
