// Package selectors compiles label selectors, evaluates equal ones once for the same labels, and
// weighs those of a policy. A requirement costs one search among the labels and one among its
// values, however many there are.
package selectors

import (
	"encoding/binary"
	"slices"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// Selector is a compiled label selector. It is immutable and safe for concurrent use.
type Selector struct {
	// id is equal for equal selectors.
	id           unique.Handle[string]
	requirements []requirement // each once
	source       labels.Selector
}

// requirement is one condition on labels. Without values the key has to be there; with values, its
// label has one of them. not negates that.
type requirement struct {
	key    string
	values []string // in order, each once; nil: any
	not    bool
}

// Compile compiles a selector, which must not be nil. Its errors are those of
// metav1.LabelSelectorAsSelector.
func Compile(selector *metav1.LabelSelector) (*Selector, error) {
	source, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, err // callers name the field
	}
	byText := map[string]requirement{}
	add := func(r requirement) { byText[r.text()] = r }
	for k, v := range selector.MatchLabels {
		add(requirement{key: k, values: []string{v}})
	}
	for _, e := range selector.MatchExpressions {
		add(requirementOf(e))
	}
	s, texts := &Selector{source: source}, make([]string, 0, len(byText))
	for text, r := range byText {
		texts, s.requirements = append(texts, text), append(s.requirements, r)
	}
	slices.Sort(texts)
	s.id = unique.Make(strings.Join(texts, ""))
	// Those that few labels fulfil come first. The order does not change the result.
	slices.SortFunc(s.requirements, compareRequirements)
	return s, nil
}

func requirementOf(e metav1.LabelSelectorRequirement) requirement {
	r := requirement{key: e.Key, not: e.Operator == metav1.LabelSelectorOpNotIn || e.Operator == metav1.LabelSelectorOpDoesNotExist}
	if len(e.Values) > 0 {
		r.values = slices.Clone(e.Values)
		slices.Sort(r.values)
		r.values = slices.Compact(r.values)
	}
	return r
}

// compareRequirements orders requirements: those that ask for a label come before those that
// forbid one, then by key, then those with fewer values.
func compareRequirements(a, b requirement) int {
	switch {
	case a.not != b.not && b.not:
		return -1
	case a.not != b.not:
		return 1
	case a.key != b.key:
		return strings.Compare(a.key, b.key)
	}
	return len(a.values) - len(b.values)
}

// text is another one for each requirement, and no beginning of another's.
func (r requirement) text() string {
	b := []byte{0}
	if r.not {
		b[0] = 1
	}
	b = append(binary.AppendUvarint(b, uint64(len(r.key))), r.key...)
	b = binary.AppendUvarint(b, uint64(len(r.values)))
	for _, v := range r.values {
		b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
	}
	return string(b)
}

func (r requirement) matches(l table.Labels) bool {
	value, exists := l.Lookup(r.key)
	if exists && r.values != nil {
		_, exists = slices.BinarySearch(r.values, value)
	}
	return exists != r.not
}

// String is the selector as kubectl writes it.
func (s *Selector) String() string { return s.source.String() }

// Matches reports whether a selector matches labels.
func (s *Selector) Matches(l table.Labels) bool {
	ok, _ := s.evaluate(l)
	return ok
}

// evaluate also returns how many requirements it has evaluated.
func (s *Selector) evaluate(l table.Labels) (ok bool, steps int) {
	for i := range s.requirements {
		if !s.requirements[i].matches(l) {
			return false, i + 1
		}
	}
	return true, len(s.requirements)
}
