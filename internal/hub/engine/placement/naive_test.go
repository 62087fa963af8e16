package placement

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// The naive rules read the world anew for every question, straight from the
// words of the API, and share no code with the engine.

// naiveMemberships describes every object of a world.
func (w world) naiveMemberships() map[string]string {
	all := map[string]string{}
	for k := range w {
		o, err := key.ParseObject(k)
		if err != nil {
			continue
		}
		all[k] = w.naiveMembership(o)
	}
	return all
}

type naiveSource struct {
	placement string
	home      key.Object
	locations []key.Location
	suspended bool
	// words are the policies other than the default, by the entry that says so.
	words []naiveWords
}

// naiveWords holds the fields of one entry of one policy, as in the API.
type naiveWords struct {
	createOnly bool
	// returnStatus is naiveSilent for objects that follow others.
	returnStatus                               v1alpha1.ReturnStatus
	associated                                 []v1alpha1.AssociatedKinds
	onConflict, onImmutable, onRemove, onDrift string
}

// naivePolicy is the table of the API: several placements on one object and location.
func naivePolicy(words []naiveWords) wire.Policy {
	owned := map[string]bool{}
	for _, w := range words {
		for _, k := range w.associated {
			for _, r := range k.Resources {
				if k.APIGroup == "" {
					owned["core/"+r] = true
				} else {
					owned[k.APIGroup+"/"+r] = true
				}
			}
		}
	}
	count := func(f func(naiveWords) bool) int {
		return len(slices.DeleteFunc(slices.Clone(words), func(w naiveWords) bool { return !f(w) }))
	}
	return wire.Policy{
		CreateOnly:  count(func(w naiveWords) bool { return w.createOnly }) == len(words),
		Adopt:       count(func(w naiveWords) bool { return w.onConflict == "Adopt" }) > 0,
		Recreate:    count(func(w naiveWords) bool { return w.onImmutable == "Recreate" }) > 0,
		Orphan:      count(func(w naiveWords) bool { return w.onRemove == "Orphan" }) > 0,
		ReportDrift: count(func(w naiveWords) bool { return w.onDrift != "Report" }) == 0,
		Associated:  strings.Join(slices.Sorted(maps.Keys(owned)), "\n"),
	}
}

func (w world) naiveMembership(o key.Object) string {
	sources, yields := w.naiveSources(o), w.naiveYields(o)
	if len(sources) == 0 && len(yields) == 0 {
		return "-"
	}
	var placements []string
	for _, s := range sources {
		if s.placement != "" {
			placements = slices.Compact(append(placements, s.placement))
		}
	}
	way, from, asking := w.naiveReturns(o, sources)
	var places []Place
	for _, l := range w.naiveLocationsOf(o) {
		p := Place{Location: l}
		var words []naiveWords
		for _, s := range sources {
			if slices.Contains(s.locations, l) {
				words = append(words, s.words...)
			}
		}
		p.Policy = naivePolicy(words)
		p.Policy.ReturnStatus = slices.Contains(from, l)
		_, p.Policy.ServiceAccount = w.naiveAdmittedBound(o, l)
		p.Policy.Release, p.Class = w.naiveReleased(o, l), w.naiveClass(o, l)
		free := slices.ContainsFunc(sources, func(s naiveSource) bool { return slices.Contains(s.locations, l) && !s.suspended })
		for _, s := range slices.Backward(sources) {
			if slices.Contains(s.locations, l) && !free {
				p.Held, p.HeldFor = "suspended by Placement "+s.placement, "Suspended"
			}
		}
		if winner := w.naiveWinner(o.Identity, l); winner != o.Space && !w.naivePrefixed(l) {
			p.Owner = string(winner) + "/" + o.Identity.String()
		}
		places = append(places, p)
	}
	return fmt.Sprintf("%s placed by %v, waits %v, left to %v, refused by %v for %v, status %s from %q by %v", placesText(places), placements, w.naiveWaits(o), yields, w.naiveRefused(o), w.naiveReasons(o), way, from, asking)
}

// naiveOwnSources are the policies that match an object, the annotation first.
func (w world) naiveOwnSources(o key.Object) (sources []naiveSource) {
	if !w.naivePlaceable(o) {
		return nil
	}
	x := w[o.Key()]
	var names []key.Location
	if json.Unmarshal([]byte(x.annotations[v1alpha1.AssignedLocationsAnnotation]), &names) == nil {
		names = slices.DeleteFunc(names, func(l key.Location) bool {
			return !w.naiveLocationIsThere(l) || w.naiveTainted(l, nil, nil) || o.Space != key.Root && !w.naiveAdmitsSpace(o.Space, l)
		})
		if len(names) > 0 {
			sources = append(sources, naiveSource{
				locations: names, words: []naiveWords{{returnStatus: v1alpha1.ReturnStatus(x.annotations[v1alpha1.ReturnStatusAnnotation])}},
			})
		}
	}
	for _, p := range w.naivePlacements(o.Space) {
		spec := p.spec
		s := naiveSource{placement: p.ref, home: placementAt(p.home, p.name), suspended: spec.Suspend, locations: w.naiveSeats(o.Space, p.uid, spec, &o)}
		matched := false
		for _, d := range spec.Downsync {
			if w.naiveMatches(d.ObjectTest, o, x) {
				matched = true
				s.words = append(s.words, naiveWords{
					d.CreateOnly, d.ReturnStatus, d.Associated,
					string(spec.OnConflict), string(spec.OnImmutable), string(spec.OnRemove), string(spec.OnDrift),
				})
			}
		}
		if matched {
			sources = append(sources, s)
		}
		for _, f := range w.naiveBehind(w[placementAt(p.home, p.name).Key()], o) {
			sources = append(sources, naiveSource{placement: p.ref, home: placementAt(p.home, p.name), suspended: spec.Suspend, locations: f.locations, words: f.words})
		}
	}
	return sources
}

// naiveWaits reports whether a Placement that places an object for its space makes its deletion
// wait.
func (w world) naiveWaits(o key.Object) bool {
	return slices.ContainsFunc(w.naiveOwnSources(o), func(s naiveSource) bool {
		return s.placement != "" && w[s.home.Key()].spec.(v1alpha1.PlacementSpec).WaitForRemoval
	})
}

// naivePlaceable reports whether policies can place an object at all. One that is being deleted needs a finalizer, and a
// Placement that keeps it for that.
func (w world) naivePlaceable(o key.Object) bool {
	x := w[o.Key()]
	if x == nil || !x.deleting {
		return w.naiveIsPlacedKind(o)
	}
	alive := *x
	alive.deleting = false
	w = maps.Clone(w)
	w[o.Key()] = &alive
	return x.finalized && w.naiveIsPlacedKind(o) && slices.ContainsFunc(w.naiveOwnSources(o), func(s naiveSource) bool {
		return s.placement != "" && w[s.home.Key()].spec.(v1alpha1.PlacementSpec).OnRemove == v1alpha1.OnRemoveAfterFinalizers
	})
}

// naiveIsPlacedKind reports whether policies can place an object that is not being deleted.
func (w world) naiveIsPlacedKind(o key.Object) bool {
	x := w[o.Key()]
	isEvent := o.Identity.Resource == key.NewResource("", "events") || o.Identity.Resource == key.NewResource("coordination.k8s.io", "leases")
	return x != nil && !x.deleting && !w.naiveGoing(o.Space) && x.report == nil && o.Group != v1alpha1.Group && !isEvent
}

func (w world) naiveGoing(s key.Space) bool {
	x := w[spaceAt(s).Key()]
	return x != nil && x.deleting
}

// naiveLetGo returns, for each object that a location has in this world and not in the next, the
// Placement that had assigned it and whether a user ended that by name.
func (w world) naiveLetGo(next world) map[string]string {
	gone := func(k string) bool { return next[k] == nil || next[k].deleting }
	all := map[string]string{}
	for k := range w {
		o, err := key.ParseObject(k)
		if err != nil {
			continue
		}
		within := next[key.Object{Space: o.Space, Identity: key.Identity{Resource: key.Namespaces, Name: o.Namespace}}.Key()]
		for _, l := range w.naiveLocationsOf(o) {
			if slices.Contains(next.naiveLocationsOf(o), l) {
				continue
			}
			var placements []string
			ended := true
			for _, s := range w.naiveSources(o) {
				if slices.Contains(s.locations, l) {
					placements = append(placements, s.placement)
					ended = ended && s.placement != "" && gone(s.home.Key()) && !next.naiveGoing(s.home.Space)
				}
			}
			placements = append(slices.DeleteFunc(placements, func(s string) bool { return s == "" }), "")
			all[k+" at "+string(l)] = fmt.Sprintf("by %q, named %v", placements[0], ended || within != nil && within.deleting || gone(k))
		}
	}
	return all
}

func (w world) naiveLocationIsThere(l key.Location) bool {
	x := w[locationAt(l).Key()]
	return x != nil && !x.deleting
}

// naiveSeen are those of the selected locations that a space can use, or that root names.
func (w world) naiveSeen(s key.Space, spec v1alpha1.PlacementSpec) []key.Location {
	entries, isOfRoot := spec.Locations, s == key.Root || spec.Spaces != nil
	named := slices.DeleteFunc(slices.Clone(entries), func(e v1alpha1.LocationSelector) bool { return e.Names == nil })
	return slices.DeleteFunc(w.naiveSelected(entries), func(l key.Location) bool {
		return !w.naiveAdmitsSpace(s, l) && !(isOfRoot && slices.Contains(w.naiveSelected(named), l))
	})
}

func (w world) naiveSelected(entries []v1alpha1.LocationSelector) (names []key.Location) {
	for _, l := range worldLocations {
		if !w.naiveLocationIsThere(l) {
			continue
		}
		for _, e := range entries {
			if e.Selector == nil && e.Names == nil || e.Names != nil && !slices.Contains(e.Names, string(l)) ||
				e.Selector != nil && !naiveAny([]metav1.LabelSelector{*e.Selector}, w[locationAt(l).Key()].labels) {
				continue
			}
			names = append(names, l)
			break
		}
	}
	return names
}

// naiveAny is false when any selector is bad: such an entry is void.
func naiveAny(selectors []metav1.LabelSelector, m map[string]string) bool {
	matched := false
	for _, s := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(&s)
		if err != nil {
			return false
		}
		matched = matched || selector.Matches(labels.Set(m))
	}
	return matched
}

func (w world) naiveMatches(d v1alpha1.ObjectTest, o key.Object, x *thing) bool {
	bad := func(selectors []metav1.LabelSelector) bool {
		return slices.ContainsFunc(selectors, func(s metav1.LabelSelector) bool {
			_, err := metav1.LabelSelectorAsSelector(&s)
			return err != nil
		})
	}
	if d.APIGroup == nil && d.Resources == nil && d.Namespaces == nil && d.NamespaceSelectors == nil && d.Names == nil && d.LabelSelectors == nil && d.HelmReleases == nil ||
		bad(d.NamespaceSelectors) || bad(d.LabelSelectors) {
		return false
	}
	if d.APIGroup != nil && *d.APIGroup != "*" && *d.APIGroup != o.APIGroup() {
		return false
	}
	if d.Resources != nil && !slices.Contains(d.Resources, "*") && !slices.Contains(d.Resources, o.Resource.Resource) {
		return false
	}
	if (d.Namespaces != nil || d.NamespaceSelectors != nil) && o.Namespace == "" {
		return false
	}
	if d.Namespaces != nil && !slices.Contains(d.Namespaces, o.Namespace) {
		return false
	}
	if d.NamespaceSelectors != nil {
		ns := w[objectAt(o.Space, "", "namespaces", "", o.Namespace).Key()]
		if ns == nil || !naiveAny(d.NamespaceSelectors, ns.labels) {
			return false
		}
	}
	if d.Names != nil && !slices.Contains(d.Names, o.Name) {
		return false
	}
	helm := d.HelmReleases == nil
	for _, r := range d.HelmReleases {
		helm = helm || x.labels["app.kubernetes.io/managed-by"] == "Helm" && x.annotations["meta.helm.sh/release-name"] == r.Name && x.annotations["meta.helm.sh/release-namespace"] == r.Namespace
	}
	return helm && (d.LabelSelectors == nil || naiveAny(d.LabelSelectors, x.labels))
}

func (w world) naiveLocationsOf(o key.Object) []key.Location {
	all := map[key.Location]bool{}
	for _, s := range w.naiveSources(o) {
		for _, l := range s.locations {
			if admitted, _ := w.naiveAdmittedBound(o, l); admitted && !slices.Contains(w.naiveYields(o), l) {
				all[l] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// naiveWinner is the space whose object a location has.
func (w world) naiveWinner(id key.Identity, location key.Location) key.Space {
	type candidate struct {
		rank  string
		space key.Space
	}
	var all []candidate
	for _, s := range append(worldSpaces[:3:3], key.Root) {
		o := key.Object{Space: s, Identity: id}
		if !slices.Contains(w.naiveLocationsOf(o), location) {
			continue
		}
		x, rank := w[o.Key()], 1
		if r := w[key.Report{Location: location, Origin: key.Placed, Object: o}.Key()]; r != nil && r.report.UID == x.uid {
			beenThere := !r.report.Digest.IsZero() && strings.Contains("Failed Held Waiting Unsupported", string(r.report.State))
			if r.report.State == wire.Applied || beenThere {
				rank = 0
			}
		}
		all = append(all, candidate{fmt.Sprintf("%d %09d %s", rank, x.createRev, s), s})
	}
	slices.SortFunc(all, func(a, b candidate) int { return strings.Compare(a.rank, b.rank) })
	return all[0].space
}
