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

// bindings is the strategy of APIBindings and of their status: each write settles what the
// binding has, so that objects can be created right after it. Nobody else writes that.
type bindings struct {
	rest.RESTCreateUpdateStrategy
	server *Server
}

func (s bindings) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	s.RESTCreateUpdateStrategy.PrepareForCreate(ctx, obj)
	s.settle(ctx, obj, nil)
}

func (s bindings) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.RESTCreateUpdateStrategy.PrepareForUpdate(ctx, obj, old)
	s.settle(ctx, obj, old)
}

func (s bindings) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	errs := s.RESTCreateUpdateStrategy.ValidateUpdate(ctx, obj, old)
	_, now := bindingOf(obj)
	_, was := bindingOf(old)
	if now != nil && was != nil && len(was.Status.Resources) > 0 &&
		v1alpha1.IsForBelow(labels.Set(now.Labels)) && !v1alpha1.IsForBelow(labels.Set(was.Labels)) {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "labels").Key(v1alpha1.ForLabel),
			"what is bound is bound here: delete the binding, and create another for below"))
	}
	return errs
}

// bindingOf is nil for what the schema refuses.
func bindingOf(obj runtime.Object) (*unstructured.Unstructured, *v1alpha1.APIBinding) {
	return typed[v1alpha1.APIBinding](obj)
}

// typed is a custom resource as what it has to be; nil: it is not.
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

// settle sets the status of a binding that is written in place of an old one, or of none.
func (s bindings) settle(ctx context.Context, obj, old runtime.Object) {
	space, ok := SpaceFromContext(ctx)
	u, b := bindingOf(obj)
	if !ok || b == nil {
		return
	}
	was := &v1alpha1.APIBinding{}
	if old != nil {
		if _, was = bindingOf(old); was == nil { // it could not be stored
			return
		}
	}
	b.Status.SpaceUID, b.Status.Resources, b.Status.Claims = was.Status.SpaceUID, was.Status.Resources, was.Status.Claims
	s.server.settleBinding(s.server.config.Table.Snapshot(), space, b, was.Spec.Claims)
	setBindingStatus(u, b)
}

func setBindingStatus(u *unstructured.Unstructured, b *v1alpha1.APIBinding) {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&b.Status)
	if err != nil { // does not happen: it is made of plain values
		return
	}
	if len(status) == 0 {
		delete(u.Object, "status")
		return
	}
	u.Object["status"] = status
}

// settleBinding sets the status that follows in a state from the spec of a binding, and from
// what it had. decided is what was said of claims before: a claim is accepted as it is when
// that is said of it first.
func (s *Server) settleBinding(state table.Reader, space key.Space, b *v1alpha1.APIBinding, decided []v1alpha1.ClaimDecision) {
	if b.DeletionTimestamp != nil || v1alpha1.IsForBelow(labels.Set(b.Labels)) {
		return
	}
	of := &settling{server: s, state: state, Binding: &binding.Binding{Space: space, APIBinding: *b}}
	export, reason := of.Export(state)
	switch other := of.first(); {
	case other != "":
		export, reason = nil, v1alpha1.ReasonTaken
		of.says(reason, fmt.Sprintf("APIBinding %q has bound APIExport %q of space %q in this space", other, of.Spec.Export.Name, of.Provider()))
	case export == nil:
		of.says(reason, of.Says(reason, v1alpha1.ExportedResource{}))
	default:
		of.pin()
		of.resources(export)
	}
	of.claims(export, reason, decided)
	of.ready()
	b.Status = of.Status
}

// settling is a binding whose status is being settled.
type settling struct {
	*binding.Binding
	server   *Server
	state    table.Reader
	problems []problem
}

type problem struct{ reason, message string }

func (of *settling) says(reason, message string) {
	of.problems = append(of.problems, problem{reason, message})
}

// first is the binding by which the space has the export already; empty if it is this one.
// By two of them what one lets the provider do, or with which objects, would count for both.
func (of *settling) first() string {
	self := of.state.Get(key.Object{Space: of.Space, Identity: key.Identity{Resource: key.APIBindings, Name: of.Name}}.Key())
	for _, b := range binding.Of(of.state, of.Space) {
		if b.Name == of.Name || b.Spec.Export != of.Spec.Export || has(&of.Status) && !has(&b.Status) {
			continue
		}
		if has(&b.Status) && !has(&of.Status) || self == nil || b.Entry.CreateRev < self.CreateRev {
			return b.Name
		}
	}
	return ""
}

// has says whether a space has anything by a binding.
func has(s *v1alpha1.APIBindingStatus) bool {
	return s.SpaceUID != "" || len(s.Resources) > 0 || len(s.Claims) > 0
}

// pin keeps the binding to the provider's space as it is now.
func (of *settling) pin() {
	if row := of.state.Get(of.Provider().Key()); row != nil && of.Provider() != key.Root {
		of.Status.SpaceUID = row.Meta.UID
	}
}

// resources binds what is free, and keeps what is bound up to date.
func (of *settling) resources(export *v1alpha1.APIExport) {
	for _, r := range export.Spec.Resources {
		crd := of.state.Get(binding.DefinitionKey(of.Provider(), r))
		if !binding.Defines(crd) {
			of.says(v1alpha1.ReasonNoDefinition, of.Says(v1alpha1.ReasonNoDefinition, r))
			continue
		}
		want, err := binding.Outline(crd)
		if err != nil {
			of.says(v1alpha1.ReasonNoDefinition, err.Error())
			continue
		}
		i := slices.IndexFunc(of.Status.Resources, func(b v1alpha1.BoundResource) bool { return b.ExportedResource == r })
		if i < 0 {
			of.bind(want)
			continue
		}
		if have := &of.Status.Resources[i]; have.Kind != want.Kind || have.Namespaced != want.Namespaced {
			of.says(v1alpha1.ReasonIncompatible, of.Says(v1alpha1.ReasonIncompatible, r))
		} else {
			*have = of.renamed(*have, want)
		}
	}
	for _, b := range of.Status.Resources {
		if !slices.Contains(export.Spec.Resources, b.ExportedResource) {
			of.says(v1alpha1.ReasonNotExported, of.Says(v1alpha1.ReasonNotExported, b.ExportedResource))
		}
	}
}

// bind binds a resource if all of its names are free.
func (of *settling) bind(want v1alpha1.BoundResource) {
	names, t := binding.Names(want), of.taken(want.ExportedResource)
	for _, name := range slices.Concat([]string{names.Plural, names.Singular}, names.ShortNames) {
		if by, ok := t.resources[name]; ok {
			of.says(v1alpha1.ReasonTaken, fmt.Sprintf("%s: the name %q is taken by %s", binding.Name(want.ExportedResource), name, by))
			return
		}
	}
	for _, kind := range []string{names.Kind, names.ListKind} {
		if by, ok := t.kinds[kind]; ok {
			of.says(v1alpha1.ReasonTaken, fmt.Sprintf("%s: the kind %q is taken by %s", binding.Name(want.ExportedResource), kind, by))
			return
		}
	}
	of.Status.Resources = append(of.Status.Resources, want)
}

// renamed is a resource as it is defined now, but for new names that are taken.
func (of *settling) renamed(have, want v1alpha1.BoundResource) v1alpha1.BoundResource {
	t := of.taken(want.ExportedResource)
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

// taken are the names that a resource of the binding can't have.
func (of *settling) taken(r v1alpha1.ExportedResource) taken {
	self := key.Identity{Resource: key.APIBindings, Name: of.Name}
	t := of.server.namesTaken(of.state, of.Space, r.Group, self)
	for _, other := range of.Status.Resources {
		if other.Group == r.Group && other.Resource != r.Resource {
			t.add("the binding itself", binding.Names(other))
		}
	}
	return t
}

func (of *settling) ready() {
	c := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonServed, Message: "all that the export has is bound",
	}
	if len(of.problems) > 0 {
		messages := make([]string, len(of.problems))
		for i, p := range of.problems {
			messages[i] = p.message
		}
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, of.problems[0].reason, strings.Join(messages, "; ")
	}
	of.condition(c)
}

// SettleBinding settles the status of a binding that is not written by anybody else. It must
// be called whenever something changes that the binding depends on, and writes only if that
// changes the status; it says whether it has written, or tried to.
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
	ctx = textual.With(about(ctx, b.Space, r.kind, metav1.NamespaceNone), r.kind)
	_, _, err = r.objects.Update(ctx, b.Name, same, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return true, fmt.Errorf("settle APIBinding %q in space %q: %w", b.Name, b.Space, err)
	}
	return true, nil
}
