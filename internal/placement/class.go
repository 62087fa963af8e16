package placement

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// Class is what the rendering of an object depends on besides the object. Locations
// of one class get the same of it. A class is made once for its content, so that
// classes are compared as pointers, and it is never changed; nil is that of a
// rendering that depends on the object alone.
type Class struct {
	// Inputs are of one Customizer each, in the order of the Customizers' names.
	Inputs []Input
}

// Input is what a rendering takes from one Customizer and from the location.
type Input struct {
	// Rules are the Customizer's, as Rules.Text has them.
	Rules string
	// Needs is what they need of the location.
	Needs string
}

// String lists the inputs.
func (c *Class) String() string {
	if c == nil {
		return "[]"
	}
	var all []string
	for _, in := range c.Inputs {
		all = append(all, fmt.Sprintf("%q of %q", in.Rules, in.Needs))
	}
	return fmt.Sprint(all)
}

// Rules are those rules of one Customizer that renderings follow.
type Rules struct {
	// Text says what they are: the same for the same rules; empty if there are none.
	Text string
	// Needs is what they need of a location; nil: nothing of any. It must be a
	// function of its arguments.
	Needs func(location key.Location, l table.Labels) string
}

// RulesOf finds the rules that renderings follow in a Customizer's spec. It must be a
// function of the spec.
type RulesOf func(*v1alpha1.CustomizerSpec) Rules

// class gives the class of some inputs, which are given up by the caller.
func (ms *memberships) class(inputs []Input) *Class {
	if len(inputs) == 0 {
		return nil
	}
	var k []byte
	for _, in := range inputs {
		k = appendText(appendText(k, in.Rules), in.Needs)
	}
	return ms.classPool.get(string(k), func() *Class { return &Class{inputs} })
}

// classes gives the class of each of some locations by the rules that are in force
// there; each is nil if all are of one. It is done once for many objects.
func (ms *memberships) classes(rules []effect, locations []key.Location) (all *Class, each []*Class) {
	if len(rules) == 0 || len(locations) == 0 {
		return nil, nil
	}
	each = make([]*Class, len(locations))
	for i, l := range locations {
		var inputs []Input
		for _, r := range rules {
			if needs, ok := r.at(l); ok {
				inputs = append(inputs, Input{r.text, needs})
			}
		}
		each[i] = ms.class(inputs)
	}
	if first := each[0]; !slices.ContainsFunc(each, func(c *Class) bool { return c != first }) {
		return first, nil
	}
	return nil, each
}

// effect is what a Customizer says of an object at some locations: paths that it
// releases, as a wire.Policy has them, or rules that renderings follow.
type effect struct {
	text      string
	key       string       // short, and the same for the same text
	locations *locationSet // nil: everywhere, and nothing is needed of any
}

// id is a different number for each set of locations.
func (e effect) id() uint64 {
	if e.locations == nil {
		return 0
	}
	return e.locations.id
}

// at says whether the effect is one at a location, and what it needs of that.
func (e effect) at(location key.Location) (needs string, ok bool) {
	if e.locations == nil {
		return "", true
	}
	return e.locations.at(location)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendEffects(b []byte, all []effect) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, e := range all {
		b = binary.AppendUvarint(appendText(b, e.key), e.id())
	}
	return b
}

func compareEffects(a, b effect) int {
	return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.id(), b.id()))
}
