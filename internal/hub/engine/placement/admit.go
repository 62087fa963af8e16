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

// admit is a compiled spec.admit of a Location: the objects that may go there. nil admits
// everything.
type admit struct {
	entries []admitEntry
	// problem is the error in the spec, if any; the Location then admits nothing.
	problem string
	// byLabels reports whether an entry selects spaces by labels.
	byLabels bool
	// everySpace reports whether an entry applies to every space.
	everySpace bool
	// placing is the namespace mapping of the Location, which cannot place every object.
	placing key.Placing
}

// isResource matches valid names of resources. An entry with another name would match nothing, so
// that its objects would fall to later entries.
var isResource = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// admitEntry is one compiled entry. An entry with a problem matches nothing and ends the list: the
// objects that it was written for must not fall to an entry with more rights.
type admitEntry struct {
	spaces  criteria[tenant]
	objects criteria[admissionRequest]
	account string
	// kinds and namespaces are the fields of the entry; nil means all.
	kinds      []v1alpha1.KindTest
	namespaces []string
}

// tenant holds the fields of a space that entries test.
type tenant struct {
	name   key.Space
	labels table.Labels
}

// admissionRequest holds the fields of an object that entries test besides its space.
type admissionRequest struct {
	resource  key.Resource
	namespace string
}

// tenantOf returns the tenant for a space in a state.
func tenantOf(state table.Reader, s key.Space) tenant {
	t := tenant{name: s}
	if row := state.Get(s.Key()); row != nil {
		t.labels = row.Meta.Labels
	}
	return t
}

func admissionRequestOf(o key.Object) admissionRequest {
	return admissionRequest{o.Resource, o.Namespace}
}

// admitTextOf returns a copy of the JSON text of a Location's spec.admit, "" if it has none.
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
		spaces := list[i].Spaces
		a.everySpace = a.everySpace || spaces == nil || spaces.Names == nil && len(spaces.Selector.MatchLabels)+len(spaces.Selector.MatchExpressions) == 0
	}
	return a
}

func compileAdmitEntry(field string, entry *v1alpha1.Admit) (e admitEntry) {
	e.kinds, e.namespaces = entry.Kinds, entry.Namespaces
	if entry.Spaces != nil {
		e.spaces = compileSpaces(field+".spaces", entry.Spaces)
		e.objects.problem = e.spaces.problem
	}
	kinds, namespaces := make([]kindTest, len(entry.Kinds)), sets.New(entry.Namespaces...)
	for i := range entry.Kinds {
		kinds[i] = compileKind(&entry.Kinds[i])
	}
	e.objects.add("kinds", entry.Kinds != nil, func(p admissionRequest) bool { return slices.ContainsFunc(kinds, p.isOf) },
		func(p admissionRequest) string {
			return fmt.Sprintf("none matches %s of API group %q", p.resource.Resource, p.resource.APIGroup())
		})
	e.objects.add("namespaces", entry.Namespaces != nil,
		func(p admissionRequest) bool { return p.namespace != "" && namespaces.Has(p.namespace) },
		func(p admissionRequest) string {
			if p.namespace == "" {
				return "the object is cluster-scoped"
			}
			return notAmong(p.namespace)
		})
	for _, test := range entry.Kinds {
		for _, r := range test.Resources {
			if r != wildcard && !isResource.MatchString(r) {
				e.objects.problem = fmt.Sprintf("%s.kinds: %q is no resource: want a lower-case plural, without a subresource", field, r)
			}
		}
	}
	for _, n := range entry.Namespaces {
		if len(validation.IsDNS1123Label(n)) > 0 {
			e.objects.problem = fmt.Sprintf("%s.namespaces: no namespace is called %q", field, n)
		}
	}
	if entry.Impersonate != nil {
		if e.account = entry.Impersonate.ServiceAccount; e.account == "" {
			e.objects.problem = field + ".impersonate: no serviceAccount is given"
		}
	}
	return e
}

// compileSpaces compiles a selector of spaces.
func compileSpaces(field string, spec *v1alpha1.SpaceSelector) (c criteria[tenant]) {
	selector, names := (*selectors.Selector)(nil), given(spec.Names)
	if spec.Selector != nil {
		var err error
		if selector, err = selectors.Compile(spec.Selector); err != nil {
			c.problem = fmt.Sprintf("%s.selector: %v", field, err)
		}
	} else if spec.Names == nil {
		c.problem = field + ": neither selector nor names"
	}
	c.add("spaces", true, func(t tenant) bool {
		if names.Has(string(t.name)) || spec.Names == nil && t.name != key.Root {
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
func (p admissionRequest) isOf(t kindTest) bool {
	return (t.group == nil || *t.group == p.resource.Group) && (t.resources == nil || t.resources.Has(p.resource.Resource))
}

// decide returns the index of the entry that admits an object of a space, or else notAdmitted or
// clusterScoped.
func (a *admit) decide(t tenant, p admissionRequest) int {
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

// admitsSpace reports whether any usable entry applies to a space.
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

// findings returns the reason why each entry does not admit an object.
func (a *admit) findings(t tenant, p admissionRequest) []Finding {
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
		if e.objects.problem != "" { // an entry with a problem ends the list
			break
		}
	}
	return all
}
