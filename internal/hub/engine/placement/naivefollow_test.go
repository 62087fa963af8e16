package placement

import (
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// naiveFollowed describes how the references of one object follow it by a Placement: to which
// locations, of which kinds, and with the fields of the matching entries.
type naiveFollowed struct {
	locations []key.Location
	resources []string
	words     []naiveWords
}

// naiveFollow returns how the references of an object follow it by a Placement: by the entries that
// match it, and by the objects that it follows itself.
func (w world) naiveFollow(p *thing, o key.Object) (all []naiveFollowed) {
	spec, ok := p.spec.(v1alpha1.PlacementSpec)
	if !ok || !w.naivePlaceable(o) {
		return nil
	}
	var own naiveFollowed
	status, _ := p.status.(v1alpha1.PlacementStatus)
	for i, d := range spec.Downsync {
		if !w.naiveMatches(d.ObjectTest, o, w[o.Key()]) {
			continue
		}
		own.words = append(own.words, naiveWords{
			d.CreateOnly, naiveSilent, nil, string(spec.OnConflict), string(spec.OnImmutable), string(spec.OnRemove), string(spec.OnDrift),
		})
		for _, f := range status.Follows {
			if d.FollowReferences && int(f.Entry) == i {
				own.resources = append(own.resources, f.Resources...)
			}
		}
	}
	if len(own.resources) > 0 {
		own.locations = w.naiveSeats(o.Space, p.uid, spec, &o)
		all = append(all, own)
	}
	all = append(all, w.naiveBehind(p, o)...)
	for i := range all {
		all[i].locations = slices.DeleteFunc(slices.Clone(all[i].locations), func(l key.Location) bool {
			admitted, _ := w.naiveAdmitted(o, l)
			return !admitted || slices.Contains(w.naiveYields(o), l)
		})
	}
	return all
}

// naiveBehind is how an object follows those that refer to it.
func (w world) naiveBehind(p *thing, o key.Object) (all []naiveFollowed) {
	for k, x := range w {
		from, err := key.ParseObject(k)
		if err != nil || from.Space != o.Space || from.Resource == naiveWidgets && w.naiveHome(o.Space) != o.Space || !slices.Contains(x.naiveRefers(from), o.Identity) {
			continue
		}
		for _, f := range w.naiveFollow(p, from) {
			if slices.Contains(f.resources, o.Resource.Resource) {
				all = append(all, f)
			}
		}
	}
	return all
}

// naiveRefers is what a thing refers to.
func (x *thing) naiveRefers(o key.Object) []key.Identity {
	if o.Resource == key.NewResource("example.com", "widgets") {
		return []key.Identity{objectAt(o.Space, "apiextensions.k8s.io", "customresourcedefinitions", "", "widgets.example.com").Identity}
	}
	return x.refers
}

// withReferences gives an object of a kind that refers to others the fields that say so.
func (x *thing) withReferences(o key.Object, to []key.Identity) {
	x.refers = to
	var accounts, configs, pulled []any
	for _, id := range to {
		name := map[string]any{"name": id.Name}
		switch id.Resource.Resource {
		case "serviceaccounts":
			accounts = append(accounts, id.Name)
		case "configmaps":
			configs = append(configs, map[string]any{"configMapRef": name})
		case "secrets":
			pulled = append(pulled, name)
		}
	}
	switch o.Resource.Resource {
	case "deployments":
		pod := map[string]any{"containers": []any{map[string]any{"envFrom": configs}}, "imagePullSecrets": pulled}
		if accounts != nil {
			pod["serviceAccountName"] = accounts[0]
		}
		x.spec = map[string]any{"template": map[string]any{"spec": pod}, "is": x.spec}
	case "serviceaccounts":
		x.pulled = pulled
	}
}
