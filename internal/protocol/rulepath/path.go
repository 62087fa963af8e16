// Package rulepath has the rules that Customizers apply to one object: which values of
// the object a rule's path selects. Hub and agent both import it, so that what the hub
// accepts is what an agent can follow.
//
// It is pure. It must never know where an object comes from or goes to.
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

// MaxCustomizers bounds how many Customizers can change one object for one location by rules.
// Each costs something at each rendering, whatever its rules do.
const MaxCustomizers = 64

// maxPath bounds the text of a path, in bytes.
const maxPath = 256

// Path says which values of an object a rule is about. It is a subset of JSONPath (RFC
// 9535) that costs no more to follow than the values it visits, since users write paths
// that agents follow: it begins with the name of a field, and goes on by names, indexes,
// [*] and filters for one string, such as [?@.name=="app"].
type Path struct{ segments []*spec.Segment }

// Parse parses a path. It refuses what is not JSONPath or not in the subset, and paths
// that may select fields that identify the object.
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

// Segments are what the path goes on by, each with one selector. The caller must not change
// them.
func (p Path) Segments() []*spec.Segment { return p.segments }

// oneString matches a filter that compares one value in an element with a string, as the
// library prints it.
var oneString = regexp.MustCompile(`^\?@(\["(\\.|[^"\\])*"\])+ == "(\\.|[^"\\])*"$`)

// simple refuses selectors that are not in the subset: those left cost no more than the
// values they visit, and can't select one twice.
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

// allowed refuses paths that may select apiVersion, kind, Orrery's marks, or any metadata
// but single labels and annotations: these say what the object is, and whose. Status does
// not travel.
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

// name is the name of the field that the i-th segment selects; ok is false if it may
// select anything else.
func name(segments []*spec.Segment, i int) (field string, ok bool) {
	if i >= len(segments) {
		return "", false
	}
	n, ok := segments[i].Selectors()[0].(spec.Name)
	return string(n), ok
}
