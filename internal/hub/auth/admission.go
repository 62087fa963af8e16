package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// admitter rejects writes that would give a user more rights: Grants of rights that the writer does
// not have, and objects by which the hub reads or writes for the writer without the writer's own
// rights.
type admitter struct{ authorizer *Authorizer }

var _ admission.ValidationInterface = admitter{}

// Admission rejects writes that would give their writer more rights.
func (g *Guard) Admission() admission.ValidationInterface { return admitter{g.authorizer} }

// Handles implements admission.Interface.
func (admitter) Handles(o admission.Operation) bool {
	return o == admission.Create || o == admission.Update
}

// Validate implements admission.ValidationInterface.
func (m admitter) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	who, root := a.GetUserInfo(), RootOf(ctx)
	if m.authorizer.mayAll(who) {
		return nil
	}
	if assigns(a) && !m.gets(root, a) {
		return admission.NewForbidden(a, fmt.Errorf("annotation %s takes the right to get the object, which others can read where it goes", v1alpha1.AssignedLocationsAnnotation))
	}
	if a.GetSubresource() != "" {
		return nil
	}
	var check func(w writer, l *lacks) (*held, error)
	switch key.NewResource(a.GetResource().Group, a.GetResource().Resource) {
	case key.Grants:
		check = writer.lacksForGrant
	case key.Placements:
		check = writer.lacksForPlacement
	case key.Customizers:
		check = writer.lacksForCustomizer
	case key.Summaries:
		check = writer.lacksForSummary
	case key.KindRules:
		check = writer.lacksForKindRules
	case key.APIBindings:
		check = writer.lacksForBinding
	default:
		return nil
	}
	if who == nil || root.API != route.Spaces {
		return admission.NewForbidden(a, errors.New("the request has no user, or is not for a space"))
	}
	if isSameSpec(a.GetObject(), a.GetOldObject()) {
		return nil
	}
	w := writer{Authorizer: m.authorizer, who: who, space: key.Space(root.Name), name: a.GetName(), object: a.GetObject(), old: a.GetOldObject()}
	var lacking lacks
	h, err := check(w, &lacking)
	switch {
	case err != nil:
		return admission.NewForbidden(a, err)
	case len(lacking) > 0:
		return admission.NewForbidden(a, fmt.Errorf("user %q needs rights that they do not hold: %s", who.GetName(), lacking))
	case h.steps > maxSteps:
		return admission.NewForbidden(a, fmt.Errorf("it names too many things at once for the rights of user %q to be looked at", who.GetName()))
	}
	return nil
}

// assigns reports whether an update newly assigns an object to locations by its annotation. A user
// that creates an object knows its content.
func assigns(a admission.Attributes) bool {
	if a.GetOperation() != admission.Update || a.GetOldObject() == nil {
		return false
	}
	now, err := meta.Accessor(a.GetObject())
	old, err2 := meta.Accessor(a.GetOldObject())
	if err != nil || err2 != nil {
		return false
	}
	value := now.GetAnnotations()[v1alpha1.AssignedLocationsAnnotation]
	return value != "" && value != old.GetAnnotations()[v1alpha1.AssignedLocationsAnnotation]
}

// gets reports whether the writer of an object may get it.
func (m admitter) gets(root route.Root, a admission.Attributes) bool {
	q := newQuestion("get", a.GetResource().Group, a.GetResource().Resource, "", a.GetNamespace(), a.GetName())
	ok := false
	switch root.API {
	case route.Spaces:
		_, ok = m.authorizer.inSpace(key.Space(root.Name), a.GetUserInfo(), &q)
	case route.Exports, route.Slices:
		_, ok = m.authorizer.inExportView(root, a.GetUserInfo(), &q)
	}
	return ok
}

// isSameSpec reports whether an update does not change the spec of an object, nor whether it is
// active.
func isSameSpec(now, old runtime.Object) bool {
	a, ok := now.(*unstructured.Unstructured)
	b, ok2 := old.(*unstructured.Unstructured)
	return ok && ok2 && b != nil && v1alpha1.IsForBelow(labels.Set(a.GetLabels())) == v1alpha1.IsForBelow(labels.Set(b.GetLabels())) &&
		apiequality.Semantic.DeepEqual(a.Object["spec"], b.Object["spec"])
}

// writer is a user that writes an object into a space.
type writer struct {
	*Authorizer
	who    user.Info
	space  key.Space
	name   string
	object runtime.Object
	// old is the object before an update; nil for a create.
	old runtime.Object
}

// into decodes the written object as one of Orrery's types.
func (w writer) into(typed any) error { return convert(w.object, typed) }

func convert(object runtime.Object, typed any) error {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("want an unstructured object, got %T", object)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
		return fmt.Errorf("decode the object: %w", err)
	}
	return nil
}

// may reports whether the writer has a verb in the space, on an Orrery resource.
func (w writer) may(verb, resource, name string) bool {
	q := newQuestion(verb, v1alpha1.Group, resource, "", "", name)
	_, ok := w.inSpace(w.space, w.who, &q)
	return ok
}

// lacksForGrant adds the rights in a Grant that its writer does not have.
func (w writer) lacksForGrant(l *lacks) (*held, error) {
	var g v1alpha1.Grant
	if err := w.into(&g); err != nil {
		return nil, err
	}
	if w.may("escalate", key.Grants.Resource, w.name) {
		return &held{}, nil
	}
	reach := w.space
	if g.Spec.Spaces != nil {
		reach = key.AllSpaces // the set of selected spaces may change
	}
	h := w.heldIn(reach, w.who)
	for i := range g.Spec.Rules {
		h.lacking(policyRule(&g.Spec.Rules[i]), g.Spec.Rules[i].Namespaces, l)
	}
	for _, r := range g.Spec.Roles {
		if w.may("bind", rolesResource, string(r.Name)) {
			continue
		}
		for _, namespace := range orAll(r.Namespaces) {
			if !l.full() && !h.includesRole(r.Name, namespace) {
				l.add(fmt.Sprintf("role %s%s", r.Name, in(namespace)))
			}
		}
	}
	return h, nil
}

// upsyncVerb is the right to see, in a space, objects that were created at locations or that placed
// objects own. The agent reads them with its own rights, which may exceed those of all users of the
// space.
const upsyncVerb = "upsync"

// lacksForPlacement adds the rights that the writer of a Placement lacks on the objects that it
// assigns or requests. The writer of one that selects other spaces needs the rights in all spaces,
// since the selection changes with labels and with new spaces.
func (w writer) lacksForPlacement(l *lacks) (*held, error) {
	var p v1alpha1.Placement
	if err := w.into(&p); err != nil {
		return nil, err
	}
	var tests, seen []v1alpha1.ObjectTest
	for _, d := range p.Spec.Downsync {
		tests = append(tests, d.ObjectTest)
		for _, k := range d.Associated { // its fields have other names
			seen = append(seen, v1alpha1.ObjectTest{APIGroup: &k.APIGroup, Resources: k.Resources, Namespaces: d.Namespaces})
		}
	}
	for _, u := range p.Spec.Upsync {
		seen = append(seen, v1alpha1.ObjectTest{APIGroup: &u.APIGroup, Resources: u.Resources, Namespaces: u.Namespaces, Names: u.Names})
	}
	reach := w.space
	if p.Spec.Spaces != nil {
		reach = key.AllSpaces
	}
	h := w.heldIn(reach, w.who)
	w.addLacks(h, tests, reads, l)
	w.addLacks(h, seen, slices.Concat(reads, []string{upsyncVerb}), l)
	return h, nil
}

// lacksForCustomizer adds the rights that the writer of a Customizer lacks: to read and change the
// matched objects, and to get its ConfigMaps.
func (w writer) lacksForCustomizer(l *lacks) (*held, error) {
	var c v1alpha1.Customizer
	if err := w.into(&c); err != nil {
		return nil, err
	}
	h := w.heldIn(w.space, w.who)
	w.addLacks(h, c.Spec.Match, slices.Concat(reads, []string{"update"}), l)
	for _, d := range c.Spec.Data {
		h.lacking(rbacv1.PolicyRule{
			Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{d.ConfigMap.Name},
		}, []string{d.ConfigMap.Namespace}, l)
	}
	return h, nil
}

// lacksForSummary adds the rights that the writer of a Summary lacks to read the matched objects.
// Every reader of the Summary reads their values.
func (w writer) lacksForSummary(l *lacks) (*held, error) {
	var s v1alpha1.Summary
	if err := w.into(&s); err != nil {
		return nil, err
	}
	h := w.heldIn(w.space, w.who)
	w.addLacks(h, s.Spec.Match, reads, l)
	if s.Spec.From == v1alpha1.SummaryUpsynced || s.Spec.From == v1alpha1.SummaryAssociated {
		h.lacking(rbacv1.PolicyRule{
			Verbs: []string{"list"}, APIGroups: []string{v1alpha1.Group}, Resources: []string{ReportsResource + "/" + ContentSubresource},
		}, nil, l)
	}
	return h, nil
}

// lacksForKindRules adds the rights that the writer of a KindRules lacks to read the objects of its
// kinds. Every reader of the status of a Placement reads the messages.
func (w writer) lacksForKindRules(l *lacks) (*held, error) {
	var k v1alpha1.KindRules
	if err := w.into(&k); err != nil {
		return nil, err
	}
	h := w.heldIn(w.space, w.who)
	for _, kinds := range k.Spec.Kinds {
		w.addLacks(h, []v1alpha1.ObjectTest{{APIGroup: &kinds.APIGroup, Resources: kinds.Resources}}, reads, l)
	}
	return h, nil
}

// addLacks adds the rights that the writer lacks on objects that tests match. A test without kinds
// applies to all kinds. Labels are ignored, since they change.
func (w writer) addLacks(h *held, tests []v1alpha1.ObjectTest, verbs []string, l *lacks) {
	for _, t := range tests {
		rule := rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{all}, Resources: t.Resources, ResourceNames: t.Names}
		if t.APIGroup != nil { // the test's notation: the core group has two names
			rule.APIGroups = []string{key.NewResource(*t.APIGroup, "").APIGroup()}
		}
		if len(t.Resources) == 0 {
			rule.Resources = []string{all}
		}
		h.lacking(rule, t.Namespaces, l)
	}
}
