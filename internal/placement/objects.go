package placement

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/wire"
)

// fieldInvalid stands for the failing field of an entry that can't be used.
const fieldInvalid = "invalid"

// wildcard in apiGroup and resources matches everything.
const wildcard = "*"

// objectTest is one compiled entry of a Placement's downsync or a Customizer's
// match. A nil field was not given.
type objectTest struct {
	group              *string // as in keys
	resources          sets.Set[string]
	namespaces         sets.Set[string]
	namespaceSelectors []labels.Selector
	names              sets.Set[string]
	labelSelectors     []labels.Selector
	returnStatus       bool
	createOnly         bool
	// problem is why the entry can't be used; it then matches nothing.
	problem string
}

// subject is an object as tests see it.
type subject struct {
	key.Object
	row   *table.Row
	state table.Reader
}

// namespaceLabels are the labels of the object's namespace; ok is false when
// the space has no such namespace.
func (s subject) namespaceLabels() (l table.Labels, ok bool) {
	row := s.state.Get(key.Object{Space: s.Space, Identity: key.Identity{Resource: key.Namespaces, Name: s.Namespace}}.Key())
	if row == nil {
		return nil, false
	}
	return row.Meta.Labels, true
}

func compileDownsync(entries []v1alpha1.Downsync) []objectTest {
	tests := make([]objectTest, len(entries))
	for i, entry := range entries {
		tests[i] = compileTest(fmt.Sprintf("downsync[%d]", i), entry.ObjectTest)
		tests[i].returnStatus = entry.ReturnStatus == v1alpha1.ReturnStatusSingleton
		tests[i].createOnly = entry.CreateOnly
	}
	return tests
}

// policy is how the entry of a placement has its objects treated.
func (t *objectTest) policy(of *placement) wire.Policy {
	policy := of.treatment
	policy.ReturnStatus, policy.CreateOnly = t.returnStatus, t.createOnly
	return policy
}

func compileTest(field string, test v1alpha1.ObjectTest) objectTest {
	var t objectTest
	if test.APIGroup == nil && len(test.Resources) == 0 && len(test.Namespaces) == 0 &&
		len(test.NamespaceSelectors) == 0 && len(test.Names) == 0 && len(test.LabelSelectors) == 0 {
		t.problem = field + ": no field is given"
		return t
	}
	if g := test.APIGroup; g != nil && *g != wildcard {
		group := key.NewResource(*g, "").Group
		t.group = &group
	}
	if !slices.Contains(test.Resources, wildcard) {
		t.resources = given(test.Resources)
	}
	t.namespaces, t.names = given(test.Namespaces), given(test.Names)
	t.namespaceSelectors = t.selectors(field+".namespaceSelectors", test.NamespaceSelectors)
	t.labelSelectors = t.selectors(field+".labelSelectors", test.LabelSelectors)
	return t
}

func given(list []string) sets.Set[string] {
	if len(list) == 0 {
		return nil
	}
	return sets.New(list...)
}

func (t *objectTest) selectors(field string, list []metav1.LabelSelector) []labels.Selector {
	var compiled []labels.Selector
	for i := range list {
		selector, err := metav1.LabelSelectorAsSelector(&list[i])
		if err != nil {
			t.problem = fmt.Sprintf("%s[%d]: %v", field, i, err)
			return nil
		}
		compiled = append(compiled, selector)
	}
	return compiled
}

// fails names the first field that an object does not satisfy; "" if it
// satisfies all.
func (t *objectTest) fails(s subject) string {
	switch {
	case t.problem != "":
		return fieldInvalid
	case t.group != nil && *t.group != s.Group:
		return "apiGroup"
	case t.resources != nil && !t.resources.Has(s.Resource.Resource):
		return "resources"
	case t.namespaces != nil && (s.Namespace == "" || !t.namespaces.Has(s.Namespace)):
		return "namespaces"
	case t.namespaceSelectors != nil && !t.inSelectedNamespace(s):
		return "namespaceSelectors"
	case t.names != nil && !t.names.Has(s.Name):
		return "names"
	case t.labelSelectors != nil && !anyMatches(t.labelSelectors, s.row.Meta.Labels):
		return "labelSelectors"
	}
	return ""
}

func (t *objectTest) inSelectedNamespace(s subject) bool {
	if s.Namespace == "" {
		return false
	}
	l, ok := s.namespaceLabels()
	return ok && anyMatches(t.namespaceSelectors, l)
}

func anyMatches(selectors []labels.Selector, l table.Labels) bool {
	return slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(l) })
}

// reach calls fn with the prefixes of all keys in a space that the test may
// match, given a namespace only those in it.
func (t *objectTest) reach(space key.Space, namespace string, fn func(reach)) {
	if t.problem != "" || namespace != "" && t.namespaces != nil && !t.namespaces.Has(namespace) {
		return
	}
	if t.group == nil || t.resources == nil {
		fn(reach{key.SpacePrefix(space), namespace})
		return
	}
	for resource := range t.resources {
		r := key.Resource{Group: *t.group, Resource: resource}
		switch {
		case namespace != "":
			fn(reach{key.NamespacePrefix(space, r, namespace), ""})
		case t.namespaces != nil:
			for ns := range t.namespaces {
				fn(reach{key.NamespacePrefix(space, r, ns), ""})
			}
		default:
			fn(reach{key.ResourcePrefix(space, r), ""})
		}
	}
}

// reach is a part of a space: the keys below a prefix, of one namespace if one
// is given.
type reach struct{ prefix, namespace string }
