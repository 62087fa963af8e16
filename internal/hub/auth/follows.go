package auth

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/refs"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// Follows says for the entries of a Placement with followReferences which kinds of objects
// who writes it may read wherever the entry may match what refers to them: these follow.
// The hub takes to locations what a Placement says, so this is as for what it matches; but
// what its writer may not read is left behind instead of refused, since nobody knows when
// it is written what will refer to what. It is nil if the log does not say now what they may.
func (g *Guard) Follows(ctx context.Context, p *v1alpha1.Placement) (all []v1alpha1.Follows) {
	who, _ := request.UserFrom(ctx)
	may := g.readerOf(ctx, who)
	if may == nil {
		return nil
	}
	for i := range p.Spec.Downsync {
		d := &p.Spec.Downsync[i]
		if !d.FollowReferences {
			continue
		}
		f := v1alpha1.Follows{Entry: int32(i)} // #nosec G115 -- the schema has 64 at most
		for _, k := range refs.All() {
			if may(k, &d.ObjectTest, p.Spec.Spaces != nil) {
				f.Resources = append(f.Resources, k.String())
			}
		}
		all = append(all, f)
	}
	return all
}

// readerOf says whether somebody who writes a policy may read objects of a kind wherever a
// test of it may match, in all spaces there may be if it reaches others. What is granted and revoked just now counts, since it is noted for
// good.
func (g *Guard) readerOf(ctx context.Context, who user.Info) func(k refs.Kind, t *v1alpha1.ObjectTest, reaches bool) bool {
	root := RootOf(ctx)
	switch {
	case g.authorizer.mayAll(who):
		return func(refs.Kind, *v1alpha1.ObjectTest, bool) bool { return true }
	case who == nil || root.API != route.Spaces:
		return func(refs.Kind, *v1alpha1.ObjectTest, bool) bool { return false }
	case g.fresh.wait(ctx) != nil:
		return nil
	}
	return writer{Authorizer: g.authorizer, who: who, space: key.Space(root.Name)}.reads
}

// reads says whether the writer may read objects of a kind wherever a test may match.
func (w writer) reads(k refs.Kind, t *v1alpha1.ObjectTest, reaches bool) bool {
	space := w.space
	if reaches {
		space = key.AllSpaces
	}
	namespaces := t.Namespaces
	if k == refs.Definitions {
		namespaces = nil // they are in none
	}
	h, lacking := w.heldIn(space, w.who), lacks(nil)
	h.lacking(rbacv1.PolicyRule{Verbs: reads, APIGroups: []string{k.Resource().APIGroup()}, Resources: []string{k.String()}}, namespaces, &lacking)
	return len(lacking) == 0 && h.steps <= maxSteps
}
