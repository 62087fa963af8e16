package placement

import (
	"slices"
	"strings"

	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// bindings is several spaces that bind from each other what they place.
func bindings() focus {
	f := focus{
		kinds: []string{spacing, spacing, locating, placing, placing, rebinding, rebinding, reporting, writing, writing, writing}, binds: true,
		placers: append(worldSpaces[:3:3], key.Root),
	}
	for _, o := range worldObjects() {
		if o.Resource == naiveWidgets || o.Resource == key.CRDs {
			f.objects = append(f.objects, o)
		}
	}
	return f
}

const rebinding = "binding"

var naiveWidgets = key.NewResource("example.com", "widgets")

func bindingAt(space key.Space, name string) key.Object {
	return objectAt(space, v1alpha1.Group, "apibindings", "", name)
}

// drawBinding draws a binding as it is after the hub has looked at it, or not since.
func (w world) drawBinding(t *rapid.T, next *thing) {
	provider := rapid.SampledFrom([]key.Space{"s1", "s2", "s2", "s3", key.Root, "none"}).Draw(t, "provider")
	next.spec = v1alpha1.APIBindingSpec{Export: v1alpha1.ExportReference{Space: string(provider), Name: "e"}}
	var status v1alpha1.APIBindingStatus
	if rapid.IntRange(0, 3).Draw(t, "bound") > 0 {
		status.Resources = []v1alpha1.BoundResource{{ExportedResource: v1alpha1.ExportedResource{Group: "example.com", Resource: "widgets"}, Kind: "Widget"}}
	}
	if x := w[spaceAt(provider).Key()]; x != nil {
		status.SpaceUID = rapid.SampledFrom([]string{x.uid, x.uid, x.uid, "other", ""}).Draw(t, "UID of the provider's space")
	}
	next.status = status
}

// naiveHome is the space that has the definition of the widgets of a space; empty if none.
func (w world) naiveHome(s key.Space) key.Space {
	x := w.naiveBound(s)
	if x == nil {
		return s
	}
	provider, pinned := key.Space(x.spec.(v1alpha1.APIBindingSpec).Export.Space), x.status.(v1alpha1.APIBindingStatus).SpaceUID
	space := w[spaceAt(provider).Key()]
	if provider != key.Root && (space == nil || space.deleting || pinned != "" && pinned != space.uid) {
		return ""
	}
	return provider
}

// naiveBound is the binding that has the widgets of a space; nil if none.
func (w world) naiveBound(s key.Space) *thing {
	for _, name := range []string{"b1", "b2"} {
		x := w[bindingAt(s, name).Key()]
		if x != nil && len(x.status.(v1alpha1.APIBindingStatus).Resources) > 0 {
			return x
		}
	}
	return nil
}

// drawBinder draws a Placement where spaces bind from each other what they place, which
// often matches definitions, too.
func drawBinder(t *rapid.T) (spec v1alpha1.PlacementSpec, status v1alpha1.PlacementStatus) {
	if rapid.IntRange(0, 3).Draw(t, "any") == 0 {
		return drawFollowed(t)
	}
	spec.Suspend = rapid.IntRange(0, 3).Draw(t, "suspend") == 0
	spec.OnRemove = rapid.SampledFrom([]v1alpha1.OnRemove{"", "Orphan", "AfterFinalizers"}).Draw(t, "onRemove")
	spec.Locations = []v1alpha1.LocationSelector{{Names: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3, rapid.ID).Draw(t, "at")}}
	resources := rapid.SampledFrom([][]string{{"widgets"}, {"widgets"}, {"widgets", "customresourcedefinitions"}, {"customresourcedefinitions"}}).Draw(t, "matched")
	spec.Downsync = []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{Resources: resources}, FollowReferences: true}}
	status.Follows = []v1alpha1.Follows{{Entry: 0, Resources: []string{"customresourcedefinitions"}}}
	if rapid.IntRange(0, 5).Draw(t, "asks") == 0 {
		spec.Upsync = []v1alpha1.Upsync{{APIGroup: "*", Resources: resources}}
	}
	return spec, status
}

// drawSite draws a location that admits some spaces.
func drawSite(t *rapid.T) (spec v1alpha1.LocationSpec) {
	for range rapid.IntRange(0, 3).Draw(t, "admit entries") {
		e := v1alpha1.Admit{Spaces: &v1alpha1.SpaceSelector{Names: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"s1", "s2", "s3", "root"}), 1, 2, rapid.ID).Draw(t, "spaces")}}
		if rapid.IntRange(0, 3).Draw(t, "of kinds") == 0 {
			e.Kinds = []v1alpha1.KindTest{{Resources: []string{"widgets"}}}
		}
		if account := rapid.SampledFrom([]string{"", "ns/a", "ns/b"}).Draw(t, "account"); account != "" {
			e.Impersonate = &v1alpha1.Impersonate{ServiceAccount: account}
		}
		spec.Admit = append(spec.Admit, e)
	}
	return spec
}

// naiveBrought is how a CRD follows objects of another space that has bound it.
type naiveBrought struct {
	consumer key.Space
	home     key.Object
	naiveFollowed
	suspended bool
}

// naiveConsumers is how a CRD follows objects of all other spaces, in the order of these.
func (w world) naiveConsumers(o key.Object) (all []naiveBrought) {
	if o.Resource != key.CRDs || !w.naivePlaceable(o) {
		return nil
	}
	for _, c := range append([]key.Space{key.Root}, worldSpaces...) {
		if c == o.Space || w.naiveHome(c) != o.Space {
			continue
		}
		for _, p := range w.naivePlacements(c) {
			for k := range w {
				from, err := key.ParseObject(k)
				if err != nil || from.Space != c || from.Resource != naiveWidgets {
					continue
				}
				for _, f := range w.naiveFollow(w[placementAt(p.home, p.name).Key()], from) {
					if !slices.Contains(f.resources, o.Resource.Resource) {
						continue
					}
					f.locations = slices.DeleteFunc(slices.Clone(f.locations), func(l key.Location) bool {
						admitted, _ := w.naiveAdmitted(key.Object{Space: c, Identity: o.Identity}, l)
						return !admitted
					})
					all = append(all, naiveBrought{c, placementAt(p.home, p.name), f, p.spec.Suspend})
				}
			}
		}
	}
	return all
}

// naiveAdmittedBound is naiveAdmitted that also considers the consumers of a CRD.
func (w world) naiveAdmittedBound(o key.Object, l key.Location) (admitted bool, account string) {
	admitted, account = w.naiveAdmitted(o, l)
	if admitted && slices.ContainsFunc(w.naiveOwnSources(o), func(s naiveSource) bool { return slices.Contains(s.locations, l) }) {
		return true, account
	}
	for _, b := range w.naiveConsumers(o) {
		if slices.Contains(b.locations, l) {
			_, account := w.naiveAdmitted(key.Object{Space: b.consumer, Identity: o.Identity}, l)
			return true, account
		}
	}
	return admitted, account
}

// naiveSources are the policies that place an object: those that match it, the annotation
// first, and those of the spaces that have bound what it defines.
func (w world) naiveSources(o key.Object) []naiveSource {
	sources, brought := w.naiveOwnSources(o), w.naiveConsumers(o)
	for i := range sources {
		sources[i].locations = slices.DeleteFunc(slices.Clone(sources[i].locations), func(l key.Location) bool {
			admitted, _ := w.naiveAdmitted(o, l)
			return !admitted && slices.ContainsFunc(brought, func(b naiveBrought) bool { return slices.Contains(b.locations, l) })
		})
	}
	named := func(b naiveBrought) string {
		if b.home.Space == o.Space {
			return b.home.Name
		}
		return string(b.home.Space) + "/" + b.home.Name
	}
	slices.SortStableFunc(brought, func(a, b naiveBrought) int { return strings.Compare(named(a), named(b)) })
	for _, b := range brought {
		s := naiveSource{placement: named(b), home: b.home, suspended: b.suspended, locations: b.locations, words: b.words}
		index := len(sources)
		for i := range sources {
			if sources[i].placement == s.placement {
				index = i + 1
			}
		}
		sources = slices.Insert(sources, index, s)
	}
	return sources
}

// checkProvided sees that the explanation agrees of a definition that a space has from
// another.
func checkProvided(t *rapid.T, e Explanation, w world, o key.Object, l key.Location) {
	want, from := false, key.Object{Space: w.naiveHome(o.Space), Identity: o.Identity}
	for _, b := range w.naiveConsumers(from) {
		want = want || b.consumer == o.Space && slices.Contains(b.locations, l) && slices.Contains(w.naiveLocationsOf(from), l)
	}
	if e.Placed != want || from.Space != "" && e.Provided.Space != from.Space {
		t.Fatalf("%s at %s: placed is %v, in truth %v:\n%s", o.Path(), l, e.Placed, want, e)
	}
}
