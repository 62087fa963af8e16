package write

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/kubeapi/textual"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// bindings is the strategy of APIBindings and of their status. Each write recomputes the status, so
// that objects of bound kinds can be created right after it. Clients can't write the status.
type bindings struct {
	rest.RESTCreateUpdateStrategy
	server *Server
}

func (s bindings) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	s.RESTCreateUpdateStrategy.PrepareForCreate(ctx, obj)
	s.updateStatus(ctx, obj, nil)
}

func (s bindings) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.RESTCreateUpdateStrategy.PrepareForUpdate(ctx, obj, old)
	s.updateStatus(ctx, obj, old)
}

func (s bindings) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	errs := s.RESTCreateUpdateStrategy.ValidateUpdate(ctx, obj, old)
	_, now := bindingOf(obj)
	_, previous := bindingOf(old)
	if now != nil && previous != nil && len(previous.Status.Resources) > 0 &&
		v1alpha1.IsForBelow(labels.Set(now.Labels)) && !v1alpha1.IsForBelow(labels.Set(previous.Labels)) {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "labels").Key(v1alpha1.ForLabel),
			"the binding already has resources here: delete it, and create another binding with this label"))
	}
	return errs
}

// bindingOf returns nil for an object that the schema refuses.
func bindingOf(obj runtime.Object) (*unstructured.Unstructured, *v1alpha1.APIBinding) {
	return typed[v1alpha1.APIBinding](obj)
}

// typed converts a custom resource to its type; the result is nil if it can't be converted.
func typed[T any](obj runtime.Object) (*unstructured.Unstructured, *T) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, nil
	}
	as := new(T)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, as) != nil {
		return u, nil
	}
	return u, as
}

// updateStatus recomputes the status of a binding that replaces an old one, or is new.
func (s bindings) updateStatus(ctx context.Context, obj, old runtime.Object) {
	space, ok := SpaceFromContext(ctx)
	u, b := bindingOf(obj)
	if !ok || b == nil {
		return
	}
	previous := &v1alpha1.APIBinding{}
	if old != nil {
		if _, previous = bindingOf(old); previous == nil { // the old object is invalid
			return
		}
	}
	b.Status.SpaceUID, b.Status.Resources, b.Status.Claims = previous.Status.SpaceUID, previous.Status.Resources, previous.Status.Claims
	s.server.settleBinding(s.server.config.Table.Snapshot(), space, b, previous.Spec.Claims)
	setBindingStatus(u, b)
}

func setBindingStatus(u *unstructured.Unstructured, b *v1alpha1.APIBinding) {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&b.Status)
	if err != nil { // can't happen: all fields are plain values
		return
	}
	if len(status) == 0 {
		delete(u.Object, "status")
		return
	}
	u.Object["status"] = status
}

// settleBinding recomputes the status of a binding from its spec, its previous status and a state
// of the space. decided are the previous decisions about claims: a new decision accepts the claim
// as it is now, and an earlier one keeps accepting the claim as it was then.
func (s *Server) settleBinding(state table.Reader, space key.Space, b *v1alpha1.APIBinding, decided []v1alpha1.ClaimDecision) {
	if b.DeletionTimestamp != nil || v1alpha1.IsForBelow(labels.Set(b.Labels)) {
		return
	}
	u := &bindingUpdate{server: s, state: state, Binding: &binding.Binding{Space: space, APIBinding: *b}}
	export, reason := u.Export(state)
	switch other := u.first(); {
	case other != "":
		export, reason = nil, v1alpha1.ReasonTaken
		u.addProblem(reason, fmt.Sprintf("APIBinding %q has bound APIExport %q of space %q in this space", other, u.Spec.Export.Name, u.Provider()))
	case export == nil:
		u.addProblem(reason, u.Message(reason, v1alpha1.ExportedResource{}))
	default:
		u.pin()
		u.resources(export)
	}
	u.claims(export, reason, decided)
	u.ready()
	b.Status = u.Status
}

// bindingUpdate is a binding whose status is being recomputed.
type bindingUpdate struct {
	*binding.Binding
	server   *Server
	state    table.Reader
	problems []problem
}

type problem struct{ reason, message string }

func (u *bindingUpdate) addProblem(reason, message string) {
	u.problems = append(u.problems, problem{reason, message})
}

// first returns the other binding by which the space has bound the same export, or "". With two of
// them, it would be undefined which one's decisions about claims apply.
func (u *bindingUpdate) first() string {
	self := u.state.Get(key.Object{Space: u.Space, Identity: key.Identity{Resource: key.APIBindings, Name: u.Name}}.Key())
	for _, b := range binding.InSpace(u.state, u.Space) {
		if b.Name == u.Name || b.Spec.Export != u.Spec.Export || isBound(&u.Status) && !isBound(&b.Status) {
			continue
		}
		if isBound(&b.Status) && !isBound(&u.Status) || self == nil || b.Entry.CreateRev < self.CreateRev {
			return b.Name
		}
	}
	return ""
}

// isBound reports whether a binding has bound anything.
func isBound(s *v1alpha1.APIBindingStatus) bool {
	return s.SpaceUID != "" || len(s.Resources) > 0 || len(s.Claims) > 0
}

// pin records the UID of the provider's space, so that a new space of the name does not replace it.
func (u *bindingUpdate) pin() {
	if row := u.state.Get(u.Provider().Key()); row != nil && u.Provider() != key.Root {
		u.Status.SpaceUID = row.Meta.UID
	}
}

// resources binds resources whose names are free, and updates those that are bound already.
func (u *bindingUpdate) resources(export *v1alpha1.APIExport) {
	for _, r := range export.Spec.Resources {
		crd := u.state.Get(binding.DefinitionKey(u.Provider(), r))
		if !binding.Defines(crd) {
			u.addProblem(v1alpha1.ReasonNoDefinition, u.Message(v1alpha1.ReasonNoDefinition, r))
			continue
		}
		want, err := binding.Outline(crd)
		if err != nil {
			u.addProblem(v1alpha1.ReasonNoDefinition, err.Error())
			continue
		}
		i := slices.IndexFunc(u.Status.Resources, func(b v1alpha1.BoundResource) bool { return b.ExportedResource == r })
		if i < 0 {
			u.bind(want)
			continue
		}
		if have := &u.Status.Resources[i]; have.Kind != want.Kind || have.Namespaced != want.Namespaced {
			u.addProblem(v1alpha1.ReasonIncompatible, u.Message(v1alpha1.ReasonIncompatible, r))
		} else {
			*have = u.renamed(*have, want)
		}
	}
	for _, b := range u.Status.Resources {
		if !slices.Contains(export.Spec.Resources, b.ExportedResource) {
			u.addProblem(v1alpha1.ReasonNotExported, u.Message(v1alpha1.ReasonNotExported, b.ExportedResource))
		}
	}
}

// bind binds a resource if all of its names are free.
func (u *bindingUpdate) bind(want v1alpha1.BoundResource) {
	names, t := binding.Names(want), u.taken(want.ExportedResource)
	for _, name := range slices.Concat([]string{names.Plural, names.Singular}, names.ShortNames) {
		if user, ok := t.resources[name]; ok {
			u.addProblem(v1alpha1.ReasonTaken, fmt.Sprintf("%s: the name %q is taken by %s", binding.Name(want.ExportedResource), name, user))
			return
		}
	}
	for _, kind := range []string{names.Kind, names.ListKind} {
		if user, ok := t.kinds[kind]; ok {
			u.addProblem(v1alpha1.ReasonTaken, fmt.Sprintf("%s: the kind %q is taken by %s", binding.Name(want.ExportedResource), kind, user))
			return
		}
	}
	u.Status.Resources = append(u.Status.Resources, want)
}

// renamed returns a bound resource with its current definition. New names that are taken are left out.
func (u *bindingUpdate) renamed(have, want v1alpha1.BoundResource) v1alpha1.BoundResource {
	t := u.taken(want.ExportedResource)
	if _, ok := t.resources[want.Singular]; ok {
		want.Singular = have.Singular
	}
	if _, ok := t.kinds[want.ListKind]; ok {
		want.ListKind = have.ListKind
	}
	want.ShortNames = slices.DeleteFunc(want.ShortNames, func(name string) bool { _, ok := t.resources[name]; return ok })
	if len(want.ShortNames) == 0 {
		want.ShortNames = nil
	}
	return want
}

// taken returns the names that a resource of the binding can't have.
func (u *bindingUpdate) taken(r v1alpha1.ExportedResource) taken {
	self := key.Identity{Resource: key.APIBindings, Name: u.Name}
	t := u.server.namesTaken(u.state, u.Space, r.Group, self)
	for _, other := range u.Status.Resources {
		if other.Group == r.Group && other.Resource != r.Resource {
			t.add("the binding itself", binding.Names(other))
		}
	}
	return t
}

func (u *bindingUpdate) ready() {
	c := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonServed, Message: "all that the export has is bound",
	}
	if len(u.problems) > 0 {
		messages := make([]string, len(u.problems))
		for i, p := range u.problems {
			messages[i] = p.message
		}
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, u.problems[0].reason, strings.Join(messages, "; ")
	}
	u.condition(c)
}

// SettleBinding recomputes the status of a binding. Controllers must call it after each change of
// an object on which the binding depends. It writes only if the status changes; wrote reports
// whether it wrote or tried to.
func (s *Server) SettleBinding(ctx context.Context, row *table.Row) (wrote bool, err error) {
	b := binding.Read(row)
	if b == nil || b.Entry.Meta.Deleting {
		return false, nil
	}
	now := b.DeepCopy()
	s.settleBinding(s.config.Table.Snapshot(), b.Space, now, b.Spec.Claims)
	if equality.Semantic.DeepEqual(now.Status, b.Status) {
		return false, nil
	}
	r, err := s.builtin(key.APIBindings)
	if err != nil {
		return false, err
	}
	same := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		return old.DeepCopyObject(), nil
	})
	ctx = textual.With(withRequest(ctx, b.Space, r.kind, metav1.NamespaceNone), r.kind)
	_, _, err = r.objects.Update(ctx, b.Name, same, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return true, fmt.Errorf("settle APIBinding %q in space %q: %w", b.Name, b.Space, err)
	}
	return true, nil
}
