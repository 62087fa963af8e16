package write

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/suggest"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// maxMatchWarnings is the maximum number of warnings about the tests of one Placement.
	maxMatchWarnings = 8
	// maxComparedNames is the number of unknown resources of one Placement for which a name is suggested.
	maxComparedNames = 64
	// maxComparedLocations is the number of locations up to which their labels are compared with
	// those of a Placement.
	maxComparedLocations = 1000
)

// unmatchable is the strategy of Placements that warns about tests that match nothing now, and suggests
// what the user probably meant. Such a test may be valid: a CRD or a label may come later.
type unmatchable struct {
	rest.RESTCreateUpdateStrategy
	table *table.Table
	kinds *registry.Registry
}

func (s unmatchable) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	return append(s.RESTCreateUpdateStrategy.WarningsOnCreate(ctx, obj), s.warnings(ctx, obj)...)
}

func (s unmatchable) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	warnings := s.RESTCreateUpdateStrategy.WarningsOnUpdate(ctx, obj, old)
	if sameOrders(obj, old) {
		return warnings
	}
	return append(warnings, s.warnings(ctx, obj)...)
}

func (s unmatchable) warnings(ctx context.Context, obj runtime.Object) (warnings []string) {
	_, p := placementOf(obj)
	space, ok := SpaceFromContext(ctx)
	if p == nil || !ok {
		return nil
	}
	snapshot := s.table.Snapshot()
	catalog, _ := s.kinds.Catalog(space, snapshot) // an invalid CRD is reported elsewhere
	if catalog == nil {
		return nil
	}
	names := namesOf(catalog)
	names.isOpen = p.Spec.Spaces != nil // other spaces may have other kinds
	for i, d := range p.Spec.Downsync {
		if len(warnings) > maxMatchWarnings {
			break
		}
		for _, problem := range names.check(&d.ObjectTest) {
			warnings = append(warnings, fmt.Sprintf("spec.downsync[%d]: %s", i, problem))
		}
	}
	for i, l := range p.Spec.Locations {
		if len(warnings) > maxMatchWarnings || ctx.Err() != nil {
			break
		}
		if problem := unknownLabel(snapshot, space, l.Selector); problem != "" {
			warnings = append(warnings, fmt.Sprintf("spec.locations[%d].selector: %s", i, problem))
		}
	}
	if len(warnings) > maxMatchWarnings {
		warnings = append(warnings[:maxMatchWarnings], "more tests match nothing")
	}
	return warnings
}

// kindNames are the names of a space's kinds.
type kindNames struct {
	// resources has the groups of each resource, and groups all groups; core is "".
	resources map[string]map[string]bool
	groups    map[string]bool
	// plurals has the resource of each kind, singular and short name, in lower case.
	plurals map[string]string
	// isOpen reports that there may be other kinds.
	isOpen bool
	// compared is the number of names that were compared with those of all resources.
	compared int
}

func namesOf(catalog *kinds.Catalog) *kindNames {
	n := &kindNames{resources: map[string]map[string]bool{}, groups: map[string]bool{}, plurals: map[string]string{}}
	for _, k := range catalog.Kinds() {
		resource := k.Resource.Resource
		group := k.GVR.Group
		if n.resources[resource] == nil {
			n.resources[resource] = map[string]bool{}
		}
		n.resources[resource][group], n.groups[group] = true, true
		for _, name := range slices.Concat(k.ShortNames, []string{k.GVK.Kind, k.Singular}) {
			n.plurals[strings.ToLower(name)] = resource
		}
	}
	return n
}

// check returns the reasons why a test matches no kind, not many more than are shown.
func (n *kindNames) check(test *v1alpha1.ObjectTest) (problems []string) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if slices.Contains(test.Namespaces, "*") {
		add(`namespaces "*" matches nothing: it is not a wildcard; omit namespaces to match all`)
	}
	group, anyGroup := "", test.APIGroup == nil || *test.APIGroup == "*"
	if !anyGroup {
		group = *test.APIGroup
		if name, _, versioned := strings.Cut(group, "/"); versioned {
			add("apiGroup %q has a version and matches nothing: want %q", group, name)
			return problems
		}
		if !n.groups[group] && !n.isOpen {
			add("apiGroup %q matches nothing: the space has no such group now%s", group, didYouMean(suggest.Nearest(group, maps.Keys(n.groups))))
			return problems
		}
	}
	for _, name := range test.Resources {
		if len(problems) > maxMatchWarnings {
			return problems
		}
		if name == "*" {
			continue
		}
		groups := n.resources[name]
		switch {
		case groups != nil && (anyGroup || groups[group]):
			if why := neverPlaced(name, groups, group, anyGroup); why != "" {
				add("resource %q matches nothing: %s", name, why)
			}
		case groups != nil:
			add("resource %q matches nothing in apiGroup %q: it is in %s", name, group, quotedGroups(groups))
		default:
			if problem := n.unknown(name); problem != "" {
				add("%s", problem)
			}
		}
	}
	return problems
}

// unknown returns why the name of a resource matches nothing; empty if another space may have it.
func (n *kindNames) unknown(name string) string {
	if plural := n.plurals[strings.ToLower(name)]; plural != "" {
		return fmt.Sprintf("resource %q matches nothing: want the plural name %q", name, plural)
	}
	if resource, group, qualified := strings.Cut(name, "."); qualified {
		return fmt.Sprintf("resource %q matches nothing: want resources: [%s] and apiGroup: %s", name, resource, group)
	}
	if lower := strings.ToLower(name); lower != name && n.resources[lower] != nil {
		return fmt.Sprintf("resource %q matches nothing: want %q", name, lower)
	}
	near := ""
	if n.compared++; n.compared <= maxComparedNames {
		near = suggest.Nearest(name, maps.Keys(n.resources))
	}
	if near == "" && n.isOpen {
		return ""
	}
	return fmt.Sprintf("resource %q matches nothing: the space has no such resource now%s", name, didYouMean(near))
}

// neverPlaced returns why objects of a resource are never placed; empty if some are.
func neverPlaced(resource string, groups map[string]bool, group string, anyGroup bool) (why string) {
	for g := range groups {
		if !anyGroup && g != group {
			continue
		}
		if why = placement.Never(key.NewResource(g, resource)); why == "" {
			return ""
		}
	}
	return why
}

func quotedGroups(groups map[string]bool) string {
	var all []string
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, fmt.Sprintf("%q", g))
	}
	return strings.Join(all, ", ")
}

func didYouMean(near string) string {
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", near)
}

// unknownLabel returns why a selector selects no location: it requires a label that no location of the
// space has. It returns "" if there are too many locations to compare.
func unknownLabel(snapshot *table.Snapshot, space key.Space, selector *metav1.LabelSelector) string {
	required := requiredLabels(selector)
	if len(required) == 0 {
		return ""
	}
	known, compared := map[string]bool{}, 0
	snapshot.Ascend(key.ResourcePrefix(key.Root, key.Locations), func(row *table.Row) bool {
		if compared++; placement.Shown(row, space) {
			for _, l := range row.Meta.Labels {
				known[l.Key] = true
			}
		}
		return compared <= maxComparedLocations
	})
	if compared == 0 || compared > maxComparedLocations {
		return ""
	}
	for _, name := range required {
		if !known[name] {
			return fmt.Sprintf("no location has the label %q now%s", name, didYouMean(suggest.Nearest(name, maps.Keys(known))))
		}
	}
	return ""
}

// requiredLabels returns the labels without which nothing matches a selector, in order.
func requiredLabels(selector *metav1.LabelSelector) []string {
	if selector == nil {
		return nil
	}
	names := slices.Collect(maps.Keys(selector.MatchLabels))
	for _, e := range selector.MatchExpressions {
		if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpExists {
			names = append(names, e.Key)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
