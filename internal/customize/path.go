// Package customize knows the rules that users give for single objects: which
// values of an object a rule's path is about. Both sides import it, so that what
// the hub accepts is what an agent can follow.
//
// It is pure. It must never know where an object comes from or goes to.
package customize

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"

	"orrery.dev/orrery/apis/v1alpha1"
)

// maxPath bounds the text of a path.
const maxPath = 256

// Path says which values of an object a rule is about. It is a part of JSONPath
// (RFC 9535), small enough that following it costs no more than the values that it
// looks at, since users write paths that agents follow: it begins with the name of
// a field, and goes on by names, indexes, [*] and filters for one string, such as
// [?@.name=="app"].
type Path struct{ segments []*spec.Segment }

// Parse reads a path and refuses one that no rule may have: it is no JSONPath,
// or more of one than rules have, or may select what makes the object the one it is.
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

// oneString is a filter that compares one value in an element with a string, in the
// library's own spelling.
var oneString = regexp.MustCompile(`^\?@(\["(\\.|[^"\\])*"\])+ == "(\\.|[^"\\])*"$`)

// simple lets through what costs no more than the values it looks at, and which
// can't select one of them twice.
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

// allowed refuses what may select apiVersion, kind, Orrery's marks, or any of the
// metadata but single labels and annotations: they say what the object is and
// whose. Status does not travel.
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
		return errors.New("may select of metadata single labels and annotations only")
	}
	one, ok := name(segments, 2)
	if !ok || len(segments) > 3 {
		return fmt.Errorf("may select of metadata.%s single ones only, by name", field)
	}
	if strings.HasPrefix(one, v1alpha1.Group+"/") {
		return fmt.Errorf("may not select %s, which is Orrery's", one)
	}
	return nil
}

// name is that of the field which the i-th segment selects; ok is false if it may
// select anything else.
func name(segments []*spec.Segment, i int) (field string, ok bool) {
	if i >= len(segments) {
		return "", false
	}
	n, ok := segments[i].Selectors()[0].(spec.Name)
	return string(n), ok
}
