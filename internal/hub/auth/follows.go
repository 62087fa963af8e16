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

// Follows returns, for the entries of a Placement with followReferences, the kinds that its writer
// may read wherever the entry may match referring objects: only these are placed. The hub thus
// places nothing that the writer may not read. Other kinds are omitted and not refused, since
// references are unknown at the time of the write. The result is nil if the log can't confirm the
// rights now.
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
		f := v1alpha1.Follows{Entry: int32(i)} // the schema allows at most 64
		for _, k := range refs.All() {
			if may(k, &d.ObjectTest, p.Spec.Spaces != nil) {
				f.Resources = append(f.Resources, k.String())
			}
		}
		all = append(all, f)
	}
	return all
}

// readerOf reports whether the writer of a policy may read objects of a kind wherever a test may
// match; in all possible spaces if the policy selects others. The most recent Grants count, since
// the result is stored.
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

// reads reports whether the writer may read objects of a kind wherever a test may match.
func (w writer) reads(k refs.Kind, t *v1alpha1.ObjectTest, reaches bool) bool {
	space := w.space
	if reaches {
		space = key.AllSpaces
	}
	namespaces := t.Namespaces
	if k == refs.Definitions {
		namespaces = nil // Namespaces are cluster-scoped
	}
	h, lacking := w.heldIn(space, w.who), lacks(nil)
	h.lacking(rbacv1.PolicyRule{Verbs: reads, APIGroups: []string{k.Resource().APIGroup()}, Resources: []string{k.String()}}, namespaces, &lacking)
	return len(lacking) == 0 && h.steps <= maxSteps
}
