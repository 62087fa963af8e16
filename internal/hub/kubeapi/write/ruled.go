package write

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/openapi"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// maxCheckedKinds bounds the kinds by whose schemas a policy's expressions are checked,
	// and maxTypeWarnings how many findings are told.
	maxCheckedKinds = 8
	maxTypeWarnings = 8
)

// ruled is the strategy of Customizers and Summaries: it also checks the types in what they
// say of objects by the schemas of the kinds that they are about. What can't be right for any
// of the kinds is refused, if all are named exactly; everything else that is found is a
// warning. What is stored already is not refused for a schema that came later.
type ruled struct {
	validated
	server *Server
	// parts takes a policy apart; nil if it has nothing to check.
	parts func(runtime.Object) *ruledParts
}

// ruledParts is what of a policy is checked.
type ruledParts struct {
	match []v1alpha1.ObjectTest
	// what the parts are called.
	what  string
	parts []ruledPart
	// lenient says that objects may have other schemas than those of the space.
	lenient bool
}

// ruledPart is a rule or an expression.
type ruledPart struct {
	// says is equal for parts that are equal.
	says  any
	check func(*openapi.Schema) *field.Error
}

// Validate implements rest.RESTCreateStrategy.
func (s ruled) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	errs := s.validated.Validate(ctx, obj)
	if len(errs) == 0 {
		errs, _ = s.checkTypes(ctx, obj, nil)
	}
	return errs
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s ruled) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	errs := s.validated.ValidateUpdate(ctx, obj, old)
	if len(errs) == 0 {
		errs, _ = s.checkTypes(ctx, obj, old)
	}
	return errs
}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (s ruled) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	_, warnings := s.checkTypes(ctx, obj, nil)
	return append(s.validated.WarningsOnCreate(ctx, obj), warnings...)
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (s ruled) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	_, warnings := s.checkTypes(ctx, obj, old)
	return append(s.validated.WarningsOnUpdate(ctx, obj, old), warnings...)
}

// checkTypes finds what of a policy does not fit the schemas of its kinds. old is nil if it
// is new.
func (s ruled) checkTypes(ctx context.Context, obj, old runtime.Object) (errs field.ErrorList, warnings []string) {
	space, _ := SpaceFromContext(ctx)
	now := s.parts(obj)
	if now == nil || len(now.parts) == 0 {
		return nil, nil
	}
	about, before := s.server.kindsOf(space, now), s.parts(old)
	if before != nil && (before.lenient != now.lenient || !equality.Semantic.DeepEqual(before.match, now.match)) {
		before = nil
	}
	for _, part := range now.parts {
		var found field.ErrorList
		for _, k := range about.kinds {
			if err := part.check(k.schema); err != nil {
				err.Detail = "for " + k.name + ": " + err.Detail
				found = append(found, err)
			}
		}
		if len(found) > 0 && len(found) == len(about.kinds) && !now.lenient && !about.loose && about.remarks == nil && !before.has(part) {
			errs = append(errs, found[0])
			continue
		}
		for _, err := range found {
			warnings = append(warnings, wire.Brief(fmt.Sprintf("%s: %s", err.Field, err.Detail)))
		}
	}
	if !before.same(now) {
		warnings = append(warnings, about.remarks...) // once: who leaves it alone has heard it
	}
	if more := len(warnings) - maxTypeWarnings; more > 0 {
		warnings = append(warnings[:maxTypeWarnings], fmt.Sprintf("and %d more", more))
	}
	return errs, warnings
}

func (p *ruledParts) has(part ruledPart) bool {
	return p != nil && slices.ContainsFunc(p.parts, part.equals)
}

func (p *ruledParts) same(now *ruledParts) bool {
	return p != nil && slices.EqualFunc(p.parts, now.parts, ruledPart.equals)
}

func (p ruledPart) equals(o ruledPart) bool { return equality.Semantic.DeepEqual(p.says, o.says) }

// rulesOf are the rules of a Customizer.
func (s *Server) rulesOf(obj runtime.Object) *ruledParts {
	var c v1alpha1.Customizer
	if !decodePolicy(obj, &c) {
		return nil
	}
	p := &ruledParts{match: c.Spec.Match, what: "rules"}
	for i, rule := range c.Spec.Rules {
		path := field.NewPath("spec", "rules").Index(i)
		p.parts = append(p.parts, ruledPart{rule, func(kind *openapi.Schema) *field.Error { return s.config.Rules.CheckTypes(rule, kind, path) }})
	}
	return p
}

// expressionsOf are the expressions of a Summary. What a location shows may be of another
// version of its kind than the space has.
func (s *Server) expressionsOf(obj runtime.Object) *ruledParts {
	var m v1alpha1.Summary
	if !decodePolicy(obj, &m) {
		return nil
	}
	placed := m.Spec.From == "" || m.Spec.From == v1alpha1.SummaryDownsynced
	p := &ruledParts{match: m.Spec.Match, what: "expressions", lenient: !placed}
	for _, part := range s.config.Summaries.Parts(&m.Spec, field.NewPath("spec")) {
		p.parts = append(p.parts, ruledPart{part.Source, func(kind *openapi.Schema) *field.Error { return s.config.Summaries.CheckTypes(part, kind) }})
	}
	return p
}

func decodePolicy(obj runtime.Object, into any) bool {
	u, ok := obj.(*unstructured.Unstructured)
	return ok && u != nil && runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into) == nil
}

// matched are the kinds that a policy is about.
type matched struct {
	kinds []checkedKind
	// remarks say why they may not be all; loose says that others of their names may come.
	remarks []string
	loose   bool
}

type checkedKind struct {
	name   string
	schema *openapi.Schema
}

func (m *matched) remark(i int, format string, args ...any) {
	m.remarks = append(m.remarks, fmt.Sprintf("spec.match[%d]: ", i)+fmt.Sprintf(format, args...))
}

// kindsOf are the kinds that a policy matches by name, as far as the space has them.
func (s *Server) kindsOf(space key.Space, of *ruledParts) (m matched) {
	catalog, err := s.config.Kinds.Catalog(space, s.config.Table.Snapshot())
	if catalog == nil {
		m.remarks = append(m.remarks, fmt.Sprintf("the %s are not checked by schemas: %v", of.what, err))
		return m
	}
	known := map[key.Resource]bool{}
	for i, test := range of.match {
		if len(test.Resources) == 0 || slices.Contains(test.Resources, "*") {
			m.remark(i, "gives no resources, so %s are not checked by the schemas of kinds; name resources and apiGroup to have that", of.what)
			continue
		}
		exact := test.APIGroup != nil && *test.APIGroup != "*"
		m.loose = m.loose || !exact
		for _, name := range test.Resources {
			found := resourceNamed(catalog, test.APIGroup, name, exact)
			if len(found) == 0 {
				m.remark(i, "the space has no resource %q yet", name)
			}
			for _, k := range found {
				if known[k.Resource] {
					continue
				}
				known[k.Resource] = true
				if len(m.kinds) >= maxCheckedKinds {
					m.remark(i, "has more kinds than are checked, which are %d", maxCheckedKinds)
					return m
				}
				if of, err := s.schemaOf(k); err == nil {
					m.kinds = append(m.kinds, checkedKind{k.GVK.Kind, of})
				} else {
					m.remark(i, "the schema of %s can't be read: %v", k.GVK.Kind, err)
				}
			}
		}
	}
	return m
}

// resourceNamed are the kinds, as they are stored, of a resource of one or any group.
func resourceNamed(catalog *kinds.Catalog, group *string, name string, exact bool) (found []*kinds.Kind) {
	if exact {
		if k, ok := catalog.ForStorage(key.NewResource(*group, name)); ok {
			return []*kinds.Kind{k}
		}
		return nil
	}
	for _, k := range catalog.Kinds() {
		if k.Resource.Resource != name {
			continue
		}
		if stored, ok := catalog.ForStorage(k.Resource); ok && !slices.Contains(found, stored) {
			found = append(found, stored)
		}
	}
	return found
}

// schemaOf is the schema of a kind's objects; nil if there is none.
func (s *Server) schemaOf(k *kinds.Kind) (*openapi.Schema, error) {
	document, packed := openapi.Root(k.GVK.GroupVersion()), func() ([]byte, error) {
		all, err := openapi.Builtin()
		return all.V3[openapi.Root(k.GVK.GroupVersion())].Packed, err
	}
	if k.Custom != nil {
		document, packed = k.Custom.Hash()+"/"+k.GVK.Version, k.Custom.OpenAPI().V3
	}
	if known, ok := s.schemas.Get(document); ok {
		return known.(map[schema.GroupVersionKind]*openapi.Schema)[k.GVK], nil
	}
	data, err := packed()
	if err != nil {
		return nil, err
	}
	all, err := openapi.Schemas(data)
	if err != nil {
		return nil, err
	}
	s.schemas.Add(document, all)
	return all[k.GVK], nil
}
