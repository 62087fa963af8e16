package auth

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// lacksForBinding adds the rights that the writer of an APIBinding lacks: to bind the export in its
// provider's space, and all rights that the provider gets. Rights that the binding already gave are
// not checked again.
func (w writer) lacksForBinding(l *lacks) (*held, error) {
	var b, previous v1alpha1.APIBinding
	if err := w.into(&b); err != nil {
		return nil, err
	}
	if old, ok := w.old.(*unstructured.Unstructured); ok && old != nil && !v1alpha1.IsForBelow(labels.Set(old.GetLabels())) {
		if err := convert(old, &previous); err != nil {
			return nil, err
		}
	}
	if provider := key.Space(b.Spec.Export.Space); b.Spec.Export != previous.Spec.Export && !w.binds(provider, b.Spec.Export.Name) {
		l.add(describe(&rbacv1.PolicyRule{
			Verbs: []string{bindVerb}, APIGroups: []string{key.APIExports.Group}, Resources: []string{key.APIExports.Resource},
			ResourceNames: []string{b.Spec.Export.Name},
		}) + fmt.Sprintf(" in space %q", provider))
	}
	h := w.heldIn(w.space, w.who)
	for _, d := range b.Spec.Claims {
		if d.State != v1alpha1.ClaimAccepted || slices.Contains(previous.Spec.Claims, d) {
			continue
		}
		// The claimed verbs may change until the write.
		rule := rbacv1.PolicyRule{Verbs: everyVerb(), APIGroups: []string{d.Group}, Resources: []string{d.Resource}}
		h.lacking(rule, nil, l)
	}
	return h, nil
}

// binds reports whether the writer may bind an export, whether it exists or not.
func (w writer) binds(provider key.Space, export string) bool {
	if provider == key.AllSpaces {
		return false
	}
	q := newQuestion(bindVerb, key.APIExports.Group, key.APIExports.Resource, "", "", export)
	_, ok := w.inSpace(provider, w.who, &q)
	return ok
}
