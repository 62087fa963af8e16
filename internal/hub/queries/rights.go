package queries

import (
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/protocol/key"
)

// rights are the rights of a reader in a space: listed objects need the right to list their kind,
// and named objects the right to get them. All responses about objects must use them.
type rights struct {
	may func(verb string, o key.Object) bool
	// mayLook reports whether the reader may get a subresource of a location.
	mayLook func(l key.Location, sub string) bool
	space   key.Space
	known   map[listed]bool
}

// listed is the subject of a right to list.
type listed struct {
	resource  key.Resource
	namespace string
}

// lists reports whether the reader may list objects of this resource and namespace.
func (r *rights) lists(id key.Identity) bool {
	kind := listed{id.Resource, id.Namespace}
	may, ok := r.known[kind]
	if !ok {
		may = r.may("list", key.Object{Space: r.space, Identity: key.Identity{Resource: kind.resource, Namespace: kind.namespace}})
		r.known[kind] = may
	}
	return may
}

// gets fails if the reader may not get an object, with the same error whether it exists or not.
func (r *rights) gets(o key.Object) error {
	if r.may("get", o) {
		return nil
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: o.APIGroup(), Resource: o.Resource.Resource}, o.Name,
		errors.New("it takes the right to get it"))
}

// names fails if the reader may not know the name of a Placement. All readers that may list
// Placements of the space may know the names of root's Placements that select it.
func (r *rights) names(ref key.PlacementRef) error {
	p := ref.Resolve(r.space)
	if p.Space != r.space && r.lists(key.Identity{Resource: key.Placements}) {
		return nil
	}
	return r.gets(p.Object())
}

// writes fails if the reader may not change an object. A user that sends an object to render could
// otherwise find out the rules.
func (r *rights) writes(o key.Object) error {
	if r.may("patch", o) {
		return nil
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: o.APIGroup(), Resource: o.Resource.Resource}, o.Name,
		errors.New("it takes the right to change it"))
}

// narrow removes parts of an explanation that the reader may not know: policies, contents of root's
// policies, and objects of other spaces.
func (r *rights) narrow(e *placement.Explanation) {
	if !r.lists(key.Identity{Resource: key.Placements}) {
		e.Placements, e.OmittedPlacements, e.OmittedOfRoot = nil, 0, false
	}
	var visible []placement.PlacementExplanation
	for _, p := range e.Placements {
		ok := true
		if owner := p.Name.Resolve(r.space); owner.Space != r.space && !r.may("get", owner.Object()) {
			p, ok = p.Conceal()
		}
		if ok {
			visible = append(visible, p)
		}
	}
	e.Placements = visible
	if !r.lists(key.Identity{Resource: key.Customizers}) {
		e.Customizers, e.OmittedCustomizers = nil, 0
	}
	for i := range e.Placements {
		r.narrowFollowing(e.Placements[i].Following)
	}
	consumers := len(e.Consumers)
	e.Consumers = slices.DeleteFunc(e.Consumers, func(ref key.PlacementRef) bool { return !r.may("get", ref.Resolve(r.space).Object()) })
	e.OtherConsumers += consumers - len(e.Consumers)
	for _, path := range []*string{&e.Owner, &e.Definition} {
		if o, err := key.ParsePath(*path); *path != "" && (err != nil || !r.may("get", o)) {
			*path = otherSpace
		}
	}
}

// narrowFollowing removes referring and referenced objects that the reader may not get, and whether
// they exist.
func (r *rights) narrowFollowing(f *placement.FollowExplanation) {
	if f == nil {
		return
	}
	hidden := func(identity string) bool {
		o, err := key.ParsePath(string(r.space) + "/" + identity)
		return err != nil || !r.may("get", o)
	}
	f.Behind = slices.DeleteFunc(f.Behind, hidden)
	f.Unread = slices.DeleteFunc(f.Unread, hidden)
	f.References = slices.DeleteFunc(f.References, func(to placement.Reference) bool { return hidden(to.Object) })
}

// otherSpace replaces an object of another space that the reader may not get.
const otherSpace = "an object of another space"
