package queries

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/protocol/key"
)

// rights are what the reader of an answer may read of a space: what is listed takes the
// right to list its kind, what is asked for by name the right to get it. Every answer
// about objects is to go by them.
type rights struct {
	may func(verb string, o key.Object) bool
	// mayLook is the right to a subresource of a location.
	mayLook func(l key.Location, sub string) bool
	space   key.Space
	known   map[listed]bool
}

// listed is what the right to list is about.
type listed struct {
	resource  key.Resource
	namespace string
}

// rightsOf are the rights of who sends the request of a context.
func (q *Server) rightsOf(ctx context.Context, s key.Space) *rights {
	return &rights{
		may: func(verb string, o key.Object) bool { return q.config.May == nil || q.config.May(ctx, verb, o) },
		mayLook: func(l key.Location, sub string) bool {
			o := key.Object{Space: s, Identity: key.Identity{Resource: key.Locations, Name: string(l)}}
			return q.config.MaySub == nil || q.config.MaySub(ctx, "get", o, sub)
		},
		space: s,
		known: map[listed]bool{},
	}
}

// lists says whether the reader may list objects like one.
func (r *rights) lists(id key.Identity) bool {
	of := listed{id.Resource, id.Namespace}
	may, ok := r.known[of]
	if !ok {
		may = r.may("list", key.Object{Space: r.space, Identity: key.Identity{Resource: of.resource, Namespace: of.namespace}})
		r.known[of] = may
	}
	return may
}

// gets fails if the reader may not get an object, in the same way whether it is there or not.
func (r *rights) gets(o key.Object) error {
	if r.may("get", o) {
		return nil
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: o.APIGroup(), Resource: o.Resource.Resource}, o.Name,
		errors.New("it takes the right to get it"))
}

// names fails if the reader may not name a Placement: one of root that reaches the space is
// told by name to all who may list those of the space.
func (r *rights) names(ref key.PlacementRef) error {
	p := ref.Of(r.space)
	if p.Space != r.space && r.lists(key.Identity{Resource: key.Placements}) {
		return nil
	}
	return r.gets(p.Object())
}

// writes fails if the reader may not change an object: who sends what rules are to be
// applied to could otherwise find out what these are.
func (r *rights) writes(o key.Object) error {
	if r.may("patch", o) {
		return nil
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: o.APIGroup(), Resource: o.Resource.Resource}, o.Name,
		errors.New("it takes the right to change it"))
}

// narrow leaves out of an explanation what the reader may not know: policies, what those of
// root say, and an object of another space.
func (r *rights) narrow(e *placement.Explanation) {
	if !r.lists(key.Identity{Resource: key.Placements}) {
		e.Placements = nil
	}
	var told []placement.PlacementExplanation
	for _, p := range e.Placements {
		ok := true
		if of := p.Name.Of(r.space); of.Space != r.space && !r.may("get", of.Object()) {
			p, ok = p.Conceal()
		}
		if ok {
			told = append(told, p)
		}
	}
	e.Placements = told
	if !r.lists(key.Identity{Resource: key.Customizers}) {
		e.Customizers = nil
	}
	for i := range e.Placements {
		r.narrowFollowing(e.Placements[i].Following)
	}
	consumers := len(e.Consumers)
	e.Consumers = slices.DeleteFunc(e.Consumers, func(ref key.PlacementRef) bool { return !r.may("get", ref.Of(r.space).Object()) })
	e.OtherConsumers += consumers - len(e.Consumers)
	for _, path := range []*string{&e.Owner, &e.Definition} {
		if o, err := key.ParsePath(*path); *path != "" && (err != nil || !r.may("get", o)) {
			*path = otherSpace
		}
	}
}

// narrowFollowing leaves out what the reader may not get of what refers to an object, and
// of what it refers to: whether that is there.
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

// otherSpace stands for an object of another space that the reader may not get.
const otherSpace = "an object of another space"
