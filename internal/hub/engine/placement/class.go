package placement

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/rulepath"
)

// maxInputs is how many inputs a class has at most: an object's own templates, and one
// Customizer more than there may be, so that the rendering fails.
const maxInputs = rulepath.MaxCustomizers + 2

// Class is what the rendering of an object depends on besides the object: locations of
// one class get the same. Classes are interned, so they are compared as pointers, and
// immutable; nil is the class of renderings that depend on the object alone.
type Class struct {
	// Inputs are one for each Customizer, in the order of their priorities, then names, after
	// the object's own. Of more Customizers than there may be the last are left out.
	Inputs []Input
	// Definition is what the locations have in place of the definition that the object is
	// written by, or of the object, which is one; nil if they have that itself.
	Definition *Definition
	// Shared says that the object is a definition that is at the locations for spaces which
	// have bound what it defines: it goes without a conversion webhook, which would be sent
	// their objects.
	Shared bool
}

// Input is what a rendering takes from one Customizer and from the location.
type Input struct {
	// Rules are the Customizer's rules: Rules.Text.
	Rules string
	// Needs are the values of the location that the rules need, as Rules.Needs gives them.
	Needs string
}

// Equal says whether two classes have the same inputs, also if they are not of one Engine.
func (c *Class) Equal(o *Class) bool {
	if c == nil || o == nil {
		return c == o
	}
	return slices.Equal(c.Inputs, o.Inputs) && c.defined() == o.defined() && c.Shared == o.Shared
}

// defined is the hash of the definition; empty if there is none.
func (c *Class) defined() string {
	if c.Definition == nil {
		return ""
	}
	return c.Definition.Hash
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
	if c.Definition != nil {
		all = append(all, fmt.Sprintf("defined by %x", c.defined()))
	}
	if c.Shared {
		all = append(all, "shared")
	}
	return fmt.Sprint(all)
}

// Customized is a Customizer whose rules are asked for, or an object with templates, which
// are rules, too.
type Customized struct {
	Space key.Space
	// Labels are those of the space.
	Labels table.Labels
	// Name and Spec are those of the Customizer; Spec is nil for an object.
	Name string
	Spec *v1alpha1.CustomizerSpec
	// Data has, for each of Spec.Data, the data of the ConfigMap as JSON; empty if it is
	// not there.
	Data []string
	// Object is the object, if there is no Spec.
	Object []byte
}

// Rules are the rules of one Customizer that change renderings.
type Rules struct {
	// Text identifies the rules: equal rules have equal texts; empty if there are none.
	Text string
	// Needs gives the values of a location that the rules need; nil if they need none. It
	// must be a function of its arguments.
	Needs func(at Site) string
	// Problems are those that can't be used, and why. They fail where they are in force.
	Problems []string
}

// RulesOf gives the rules of a Customizer that change renderings, or an object's own. It must be a function of
// its arguments.
type RulesOf func(Customized) Rules

// classes gives the class of each location by the rules in force there, the definitions of
// others that are there, and whether the object is there for others. If all locations
// are of one class, each is nil and all is that class. It is done once for many objects.
func (ms *memberships) classes(rules []effect, met []foreign, shared *locationSet, locations []key.Location) (all *Class, each []*Class) {
	if len(rules)+len(met) == 0 && shared == nil || len(locations) == 0 {
		return nil, nil
	}
	each = make([]*Class, len(locations))
	for i, l := range locations {
		var inputs []Input
		id := sha256.New()
		for _, r := range rules {
			if needs, ok := r.at(l); ok && len(inputs) < maxInputs {
				inputs = append(inputs, Input{r.text, needs.String()})
				_, _ = id.Write(append([]byte(r.key), needs.id()...)) // a hash never fails
			}
		}
		for len(met) > 0 && met[0].location < l {
			met = met[1:]
		}
		var definition *Definition
		if len(met) > 0 && met[0].location == l {
			definition = met[0].Definition
			_, _ = fmt.Fprintf(id, "defined by %s", definition.Hash)
		}
		others := shared != nil && shared.has(l)
		if others {
			_, _ = fmt.Fprint(id, "shared")
		}
		if inputs != nil || definition != nil || others {
			each[i] = ms.classPool.get(string(id.Sum(nil)), func() *Class { return &Class{inputs, definition, others} })
		}
	}
	if first := each[0]; !slices.ContainsFunc(each, func(c *Class) bool { return c != first }) {
		return first, nil
	}
	return nil, each
}

// effect is what a Customizer does to an object at some locations: it releases paths, as
// a wire.Policy has them, or changes renderings by rules.
type effect struct {
	text      string
	key       string       // a hash of the text
	locations *locationSet // nil: everywhere, without needs
	// priority is that of the rules' Customizer.
	priority int32
}

// id is a different number for each set of locations.
func (e effect) id() uint64 {
	if e.locations == nil {
		return 0
	}
	return e.locations.id
}

// at says whether the effect applies at a location, and what it needs of the location.
func (e effect) at(location key.Location) (needs *need, ok bool) {
	if e.locations == nil {
		return nil, true
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
