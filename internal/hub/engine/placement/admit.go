package placement

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/selectors"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// admit is a compiled spec.admit of a Location: which objects may go there. nil admits
// everything.
type admit struct {
	entries []admitEntry
	// problem is why the whole can't be used; then it admits nothing.
	problem string
	// byLabels says that the labels of spaces matter.
	byLabels bool
	// everySpace says that some objects of every space are admitted.
	everySpace bool
	// placing is where the Location puts objects, which it may not be able to.
	placing key.Placing
}

// isResource matches what may be the name of a resource. Another would match nothing, and
// leave what it was meant for to the entries behind it.
var isResource = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// admitEntry is one compiled entry. One with a problem matches nothing, and ends the list:
// what it may have been about must not fall to an entry with more rights.
type admitEntry struct {
	spaces  criteria[tenant]
	objects criteria[petition]
	account string
	// kinds and namespaces are those of the entry; nil: all.
	kinds      []v1alpha1.KindTest
	namespaces []string
}

// tenant is a space as entries see it.
type tenant struct {
	name   key.Space
	labels table.Labels
}

// petition is what entries see of an object besides its space.
type petition struct {
	resource  key.Resource
	namespace string
}

// tenantOf is a space in a state.
func tenantOf(state table.Reader, s key.Space) tenant {
	t := tenant{name: s}
	if row := state.Get(s.Key()); row != nil {
		t.labels = row.Meta.Labels
	}
	return t
}

func petitionOf(o key.Object) petition { return petition{o.Resource, o.Namespace} }

// admitTextOf is a copy of a Location's spec.admit as it is in the log, "" if it has none.
func admitTextOf(row *table.Row) string {
	raw := gjson.GetBytes(row.Value, "spec.admit").Raw
	if raw == "null" {
		return ""
	}
	return raw
}

// compileAdmit compiles the text of a spec.admit; nil for "".
func compileAdmit(text string) *admit {
	if text == "" {
		return nil
	}
	var list []v1alpha1.Admit
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return &admit{problem: fmt.Sprintf("admit: %v", err)}
	}
	a := &admit{entries: make([]admitEntry, len(list))}
	for i := range list {
		a.entries[i] = compileAdmitEntry(fmt.Sprintf("admit[%d]", i), &list[i])
		a.byLabels = a.byLabels || list[i].Spaces != nil && list[i].Spaces.Selector != nil
	}
	for i := range list {
		if a.entries[i].objects.problem != "" {
			break
		}
		of := list[i].Spaces
		a.everySpace = a.everySpace || of == nil || of.Names == nil && len(of.Selector.MatchLabels)+len(of.Selector.MatchExpressions) == 0
	}
	return a
}

func compileAdmitEntry(field string, of *v1alpha1.Admit) (e admitEntry) {
	e.kinds, e.namespaces = of.Kinds, of.Namespaces
	if of.Spaces != nil {
		e.spaces = compileSpaces(field+".spaces", of.Spaces)
		e.objects.problem = e.spaces.problem
	}
	kinds, namespaces := make([]kindTest, len(of.Kinds)), sets.New(of.Namespaces...)
	for i := range of.Kinds {
		kinds[i] = compileKind(&of.Kinds[i])
	}
	e.objects.add("kinds", of.Kinds != nil, func(p petition) bool { return slices.ContainsFunc(kinds, p.isOf) },
		func(p petition) string {
			return fmt.Sprintf("none matches %s of API group %q", p.resource.Resource, p.resource.APIGroup())
		})
	e.objects.add("namespaces", of.Namespaces != nil,
		func(p petition) bool { return p.namespace != "" && namespaces.Has(p.namespace) },
		func(p petition) string {
			if p.namespace == "" {
				return "the object is cluster-scoped"
			}
			return notAmong(p.namespace)
		})
	for _, test := range of.Kinds {
		for _, r := range test.Resources {
			if r != wildcard && !isResource.MatchString(r) {
				e.objects.problem = fmt.Sprintf("%s.kinds: %q is no resource: want a lower-case plural, without a subresource", field, r)
			}
		}
	}
	for _, n := range of.Namespaces {
		if len(validation.IsDNS1123Label(n)) > 0 {
			e.objects.problem = fmt.Sprintf("%s.namespaces: no namespace is called %q", field, n)
		}
	}
	if of.Impersonate != nil {
		if e.account = of.Impersonate.ServiceAccount; e.account == "" {
			e.objects.problem = field + ".impersonate: no serviceAccount is given"
		}
	}
	return e
}

// compileSpaces compiles which spaces an entry is about.
func compileSpaces(field string, of *v1alpha1.SpaceSelector) (c criteria[tenant]) {
	selector, names := (*selectors.Selector)(nil), given(of.Names)
	if of.Selector != nil {
		var err error
		if selector, err = selectors.Compile(of.Selector); err != nil {
			c.problem = fmt.Sprintf("%s.selector: %v", field, err)
		}
	} else if of.Names == nil {
		c.problem = field + ": neither selector nor names"
	}
	c.add("spaces", true, func(t tenant) bool {
		if names.Has(string(t.name)) || of.Names == nil && t.name != key.Root {
			return selector == nil || selector.Matches(t.labels)
		}
		return false
	}, func(t tenant) string { return fmt.Sprintf("none is %q", t.name) })
	return c
}

// kindTest is a compiled v1alpha1.KindTest.
type kindTest struct {
	group     *string          // as in keys; nil: any
	resources sets.Set[string] // nil: any
}

func compileKind(test *v1alpha1.KindTest) (t kindTest) {
	if g := test.APIGroup; g != nil && *g != wildcard {
		t.group = new(key.NewResource(*g, "").Group)
	}
	if test.Resources != nil && !slices.Contains(test.Resources, wildcard) {
		t.resources = sets.New(test.Resources...)
	}
	return t
}

// isOf reports whether a test matches the kind.
func (p petition) isOf(t kindTest) bool {
	return (t.group == nil || *t.group == p.resource.Group) && (t.resources == nil || t.resources.Has(p.resource.Resource))
}

// decide is the index of the entry that admits objects like p of a space, or why none does.
func (a *admit) decide(t tenant, p petition) int {
	for i := range a.entries {
		switch e := &a.entries[i]; {
		case e.objects.problem != "":
			return notAdmitted
		case !e.spaces.fit(t) || !e.objects.fit(p):
		case !a.placing.Admits(p.resource, p.namespace):
			return clusterScoped
		default:
			return i
		}
	}
	return notAdmitted
}

// admitsSpace says whether any entry is about a space.
func (a *admit) admitsSpace(t tenant) bool {
	if a == nil {
		return true
	}
	for i := range a.entries {
		switch e := &a.entries[i]; {
		case e.objects.problem != "":
			return false
		case e.spaces.fit(t):
			return true
		}
	}
	return false
}

// findings are why each entry does not admit an object.
func (a *admit) findings(t tenant, p petition) []Finding {
	if a.problem != "" {
		return []Finding{{fieldInvalid, a.problem}}
	}
	var all []Finding
	for i := range a.entries {
		e := &a.entries[i]
		f, _ := e.objects.find(p)
		if e.objects.problem == "" && !e.spaces.fit(t) {
			f, _ = e.spaces.find(t)
		}
		all = append(all, f)
		if e.objects.problem != "" { // it ends the list
			break
		}
	}
	return all
}
