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

// maxInputs bounds the inputs of a class: the object's own templates, and one Customizer above the
// limit, so that the rendering fails.
const maxInputs = rulepath.MaxCustomizers + 2

// Class is the rendering class of an object at a location: all inputs of the rendering besides the
// object. Locations with the same class get the same rendering. Classes are immutable and interned,
// so pointers can be compared. nil is the class of a rendering that depends on the object alone.
type Class struct {
	// Inputs holds the object's own templates, then one input for each Customizer, ordered by
	// priority and name. Customizers above the limit are left out.
	Inputs []Input
	// Definition is the CRD of another space that the locations have, if it differs from the one
	// that defines the object in its space. For a CRD, it is the other version of the CRD itself.
	// nil if there is no difference.
	Definition *Definition
	// Shared reports whether the object is a CRD that the locations also have for spaces that have
	// bound its resource. It is then rendered without its conversion webhook, since that would
	// receive the objects of these spaces.
	Shared bool
}

// Input holds the values that a rendering takes from one Customizer and from the location.
type Input struct {
	// Rules identifies the Customizer's rules: it is Rules.Text.
	Rules string
	// Needs holds the values of the location that the rules use, as returned by Rules.Needs.
	Needs string
}

// Equal reports whether two classes have the same inputs. They may belong to different Engines.
func (c *Class) Equal(o *Class) bool {
	if c == nil || o == nil {
		return c == o
	}
	return slices.Equal(c.Inputs, o.Inputs) && c.defined() == o.defined() && c.Shared == o.Shared
}

// defined returns the hash of the definition; empty if there is none.
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

// Customized is the input of RulesOf: a Customizer, or an object with templates, which are rules,
// too.
type Customized struct {
	Space key.Space
	// Labels are the labels of the space.
	Labels table.Labels
	// Name and Spec are the Customizer's; Spec is nil for an object with templates.
	Name string
	Spec *v1alpha1.CustomizerSpec
	// Data holds, for each of Spec.Data, the data of the ConfigMap as JSON; empty if there is no
	// such ConfigMap.
	Data []string
	// Object is the JSON of the object; set if Spec is nil.
	Object []byte
}

// Rules are the rules of one Customizer that change renderings.
type Rules struct {
	// Text identifies the rules: equal rules have equal texts. It is empty if there are none.
	Text string
	// Needs returns the values of a location that the rules use; nil if they use none. It must be a
	// pure function.
	Needs func(loc Site) string
	// Problems describes the rules that cannot be used. They fail at the locations where they
	// apply.
	Problems []string
}

// RulesOf returns the rules of a Customizer or of an object's templates that change renderings. It
// must be a pure function.
type RulesOf func(Customized) Rules

// Compilers compile the rules in policies. They must be pure functions; nil if there are no such
// rules.
type Compilers struct {
	// Rules returns the rules that change renderings.
	Rules RulesOf
	// Health compiles the health rules of KindRules.
	Health HealthOf
}

// classes computes the class of an object at each of its locations. The inputs are the rules in
// effect, the foreign definitions, and shared, the locations where the object is present for other
// spaces. If all locations have one class, each is nil and all is that class. The result is
// interned with the Membership, so this runs once for many objects.
func (ms *memberships) classes(rules []effect, foreign []foreign, shared *locationSet, locations []key.Location) (all *Class, each []*Class) {
	if len(rules)+len(foreign) == 0 && shared == nil || len(locations) == 0 {
		return nil, nil
	}
	each = make([]*Class, len(locations))
	for i, l := range locations {
		var inputs []Input
		id := sha256.New()
		for _, r := range rules {
			if needs, ok := r.needsAt(l); ok && len(inputs) < maxInputs {
				inputs = append(inputs, Input{r.text, needs.String()})
				_, _ = id.Write(append([]byte(r.key), needs.id()...)) // a hash never fails
			}
		}
		for len(foreign) > 0 && foreign[0].location < l {
			foreign = foreign[1:]
		}
		var definition *Definition
		if len(foreign) > 0 && foreign[0].location == l {
			definition = foreign[0].Definition
			_, _ = fmt.Fprintf(id, "defined by %s", definition.Hash)
		}
		others := shared != nil && shared.contains(l)
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

// effect is the effect of a Customizer on an object at some locations. It releases paths, in the
// format of wire.Policy, or it changes renderings by rules.
type effect struct {
	text      string
	key       string       // a hash of the text
	locations *locationSet // nil: everywhere, and no values of locations are used
	// priority is the priority of the Customizer.
	priority int32
}

// id returns a number that identifies the set of locations.
func (e effect) id() uint64 {
	if e.locations == nil {
		return 0
	}
	return e.locations.id
}

// needsAt reports whether the effect applies at a location, and returns the values that it needs of
// the location.
func (e effect) needsAt(location key.Location) (needs *need, ok bool) {
	if e.locations == nil {
		return nil, true
	}
	return e.locations.find(location)
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
