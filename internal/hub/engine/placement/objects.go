package placement

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/refs"
	"orrery.dev/orrery/internal/hub/engine/selectors"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// wildcard in apiGroup and resources matches everything.
const wildcard = "*"

// objectTest is one compiled entry of a Placement's downsync or a Customizer's match.
type objectTest struct {
	criteria[subject]
	// group (as in keys), resources and namespaces limit the keys that can match; nil means any.
	group      *string
	resources  sets.Set[string]
	namespaces sets.Set[string]
	// byNamespace reports whether the test depends on the labels of namespaces.
	byNamespace bool
	returns     returns
	createOnly  bool
	// associated is in the format of wire.Policy.
	associated string
	// followed reports whether references follow the objects; follows are the permitted kinds.
	followed bool
	follows  refs.Kinds
}

// subject is an object with the inputs of tests.
type subject struct {
	key.Object
	row   *table.Row
	state table.Reader
	// memo is the cache of the step; it may be nil.
	memo *memo
}

// namespaceLabels returns the labels of the object's namespace; ok is false if the space has no
// such namespace.
func (s subject) namespaceLabels() (l table.Labels, ok bool) {
	return s.memo.namespaceLabels(s.state, namespaceAt{s.Space, s.Namespace})
}

func compileDownsync(entries []v1alpha1.Downsync, follows []v1alpha1.Follows) []objectTest {
	tests := make([]objectTest, len(entries))
	for i, entry := range entries {
		tests[i] = compileTest(fmt.Sprintf("downsync[%d]", i), entry.ObjectTest)
		tests[i].returns = returnsOf(entry.ReturnStatus)
		tests[i].createOnly = entry.CreateOnly
		tests[i].associated = associatedKinds(entry.Associated)
		tests[i].followed = entry.FollowReferences
		for _, f := range follows {
			if entry.FollowReferences && int(f.Entry) == i {
				tests[i].follows = refs.KindsOf(f.Resources)
			}
		}
	}
	return tests
}

// policy returns the policy of an entry of a placement for its objects.
func (t *objectTest) policy(placement *placement) wire.Policy {
	policy := placement.treatment
	policy.CreateOnly, policy.Associated = t.createOnly, t.associated
	return policy
}

// compileTest compiles an object test. It adds each field once, in the order in which
// fields are tested.
func compileTest(field string, test v1alpha1.ObjectTest) objectTest {
	var t objectTest
	if equality.Semantic.DeepEqual(test, v1alpha1.ObjectTest{}) {
		t.problem = field + ": no field is given"
		return t
	}
	var group *string
	if g := test.APIGroup; g != nil && *g != wildcard {
		group = new(key.NewResource(*g, "").Group)
	}
	var resources sets.Set[string]
	if !slices.Contains(test.Resources, wildcard) {
		resources = given(test.Resources)
	}
	namespaces, names := given(test.Namespaces), given(test.Names)
	namespaceSelectors := t.selectors(field+".namespaceSelectors", test.NamespaceSelectors)
	labelSelectors := t.selectors(field+".labelSelectors", test.LabelSelectors)

	t.add("apiGroup", group != nil, func(s subject) bool { return *group == s.Group },
		func(s subject) string {
			return fmt.Sprintf("the object's is %q, not %q", s.APIGroup(), key.Resource{Group: *group}.APIGroup())
		})
	t.add("resources", resources != nil, func(s subject) bool { return resources.Has(s.Resource.Resource) },
		func(s subject) string { return notAmong(s.Resource.Resource) })
	t.add("namespaces", namespaces != nil, func(s subject) bool { return s.Namespace != "" && namespaces.Has(s.Namespace) },
		func(s subject) string { return s.ofNamespace(notAmong(s.Namespace)) })
	t.add("namespaceSelectors", namespaceSelectors != nil, func(s subject) bool { return s.inSelectedNamespace(namespaceSelectors) },
		func(s subject) string {
			l, ok := s.namespaceLabels()
			if !ok {
				return s.ofNamespace(fmt.Sprintf("namespace %q does not exist", s.Namespace))
			}
			return s.ofNamespace(fmt.Sprintf("none matches the labels %s of namespace %q", format(l), s.Namespace))
		})
	t.add("names", names != nil, func(s subject) bool { return names.Has(s.Name) },
		func(s subject) string { return notAmong(s.Name) })
	t.add("labelSelectors", labelSelectors != nil, func(s subject) bool { return s.memo.objectMatches(labelSelectors, s.row.Meta.Labels) },
		func(s subject) string {
			return fmt.Sprintf("none matches the object's labels %s", format(s.row.Meta.Labels))
		})
	releases := test.HelmReleases
	t.add("helmReleases", releases != nil, func(s subject) bool {
		r, ok := HelmRelease(s.row)
		return ok && slices.Contains(releases, r)
	}, func(s subject) string {
		if r, ok := HelmRelease(s.row); ok {
			return notAmong(r.Namespace + "/" + r.Name)
		}
		return "the object has no annotations of a Helm release"
	})
	t.group, t.resources, t.namespaces, t.byNamespace = group, resources, namespaces, namespaceSelectors != nil
	return t
}

func notAmong(name string) string { return fmt.Sprintf("%q is not among them", name) }

// ofNamespace returns why, or the reason that the object has no namespace.
func (s subject) ofNamespace(why string) string {
	if s.Namespace == "" {
		return "the object is cluster-scoped"
	}
	return why
}

func given(list []string) sets.Set[string] {
	if len(list) == 0 {
		return nil
	}
	return sets.New(list...)
}

func (t *objectTest) selectors(field string, list []metav1.LabelSelector) []*selectors.Selector {
	var compiled []*selectors.Selector
	for i := range list {
		selector, err := selectors.Compile(&list[i])
		if err != nil {
			t.problem = fmt.Sprintf("%s[%d]: %v", field, i, err)
			return nil
		}
		compiled = append(compiled, selector)
	}
	return compiled
}

func (s subject) inSelectedNamespace(list []*selectors.Selector) bool {
	if s.Namespace == "" {
		return false
	}
	l, ok := s.namespaceLabels()
	return ok && s.memo.namespaceMatches(list, l)
}

// maxPrefixes bounds the key prefixes of a test with named namespaces. A test with more of them
// reads all objects of its resources.
const maxPrefixes = 256

// reach calls fn for the key ranges of a space that contain all objects that the test may match. If
// namespace is not empty, they are limited to it.
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
		case t.namespaces != nil && len(t.resources)*len(t.namespaces) <= maxPrefixes:
			for ns := range t.namespaces {
				fn(reach{key.NamespacePrefix(space, r, ns), ""})
			}
		default: // of all namespaces
			fn(reach{key.ResourcePrefix(space, r), ""})
		}
	}
}

// reach is a range of keys: those with a prefix, and, unless it is empty, in a namespace.
type reach struct{ prefix, namespace string }
