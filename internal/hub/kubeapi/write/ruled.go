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
	"k8s.io/utils/lru"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/openapi"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// maxCheckedKinds limits the kinds by whose schemas a policy's expressions are checked, and
	// maxTypeWarnings the returned warnings.
	maxCheckedKinds = 8
	maxTypeWarnings = 8
)

// ruled is the strategy of Customizers and Summaries. It also checks the types of their rules and
// expressions against the schemas of the kinds that they match. A rule that is wrong for all kinds is
// refused if the policy names all kinds exactly; other findings are warnings. A stored rule is not
// refused if a schema changes later.
type ruled struct {
	validated
	schemas *schemaCache
	// rules returns the checked rules of a policy, or nil.
	rules func(runtime.Object) *ruleSet
}

// ruleSet has the rules or expressions of a policy, with the kinds that it matches.
type ruleSet struct {
	match []v1alpha1.ObjectTest
	// what is the plural noun for the rules in messages.
	what  string
	rules []checkedRule
	// lenient is set if objects may have other schemas than those of the space.
	lenient bool
}

// checkedRule is a rule or an expression.
type checkedRule struct {
	// source identifies the rule: equal rules have equal values.
	source any
	check  func(*openapi.Schema) *field.Error
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

// checkTypes checks the rules of a policy against the schemas of its kinds. old is nil for a new
// policy.
func (s ruled) checkTypes(ctx context.Context, obj, old runtime.Object) (errs field.ErrorList, warnings []string) {
	space, _ := SpaceFromContext(ctx)
	now := s.rules(obj)
	if now == nil || len(now.rules) == 0 {
		return nil, nil
	}
	matching, before := s.schemas.kindsOf(space, now), s.rules(old)
	if before != nil && (before.lenient != now.lenient || !equality.Semantic.DeepEqual(before.match, now.match)) {
		before = nil
	}
	for _, rule := range now.rules {
		var found field.ErrorList
		for _, k := range matching.kinds {
			if err := rule.check(k.schema); err != nil {
				err.Detail = "for " + k.name + ": " + err.Detail
				found = append(found, err)
			}
		}
		if len(found) > 0 && len(found) == len(matching.kinds) && !now.lenient && !matching.loose && matching.remarks == nil && !before.contains(rule) {
			errs = append(errs, found[0])
			continue
		}
		for _, err := range found {
			warnings = append(warnings, wire.Brief(fmt.Sprintf("%s: %s", err.Field, err.Detail)))
		}
	}
	if !before.same(now) {
		warnings = append(warnings, matching.remarks...) // only for writes that change the rules
	}
	if more := len(warnings) - maxTypeWarnings; more > 0 {
		warnings = append(warnings[:maxTypeWarnings], fmt.Sprintf("and %d more", more))
	}
	return errs, warnings
}

func (p *ruleSet) contains(rule checkedRule) bool {
	return p != nil && slices.ContainsFunc(p.rules, rule.equals)
}

func (p *ruleSet) same(now *ruleSet) bool {
	return p != nil && slices.EqualFunc(p.rules, now.rules, checkedRule.equals)
}

func (p checkedRule) equals(o checkedRule) bool {
	return equality.Semantic.DeepEqual(p.source, o.source)
}

// rulesOf returns the rules of a Customizer.
func (v *policyValidator) rulesOf(obj runtime.Object) *ruleSet {
	var c v1alpha1.Customizer
	if !decodePolicy(obj, &c) {
		return nil
	}
	p := &ruleSet{match: c.Spec.Match, what: "rules"}
	for i, rule := range c.Spec.Rules {
		path := field.NewPath("spec", "rules").Index(i)
		p.rules = append(p.rules, checkedRule{rule, func(kind *openapi.Schema) *field.Error { return v.rules.CheckTypes(rule, kind, path) }})
	}
	return p
}

// expressionsOf returns the expressions of a Summary. A location may report another version of a kind
// than the space has.
func (v *policyValidator) expressionsOf(obj runtime.Object) *ruleSet {
	var m v1alpha1.Summary
	if !decodePolicy(obj, &m) {
		return nil
	}
	placed := m.Spec.From == "" || m.Spec.From == v1alpha1.SummaryDownsynced
	p := &ruleSet{match: m.Spec.Match, what: "expressions", lenient: !placed}
	for _, rule := range v.summaries.Expressions(&m.Spec, field.NewPath("spec")) {
		p.rules = append(p.rules, checkedRule{rule.Source, func(kind *openapi.Schema) *field.Error { return v.summaries.CheckTypes(rule, kind) }})
	}
	return p
}

func decodePolicy(obj runtime.Object, into any) bool {
	u, ok := obj.(*unstructured.Unstructured)
	return ok && u != nil && runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into) == nil
}

// schemaCache returns the kinds that policies match, with their schemas. It is safe for concurrent
// use.
type schemaCache struct {
	table *table.Table
	kinds *registry.Registry
	// byDocument has the schemas of kinds, by document.
	byDocument *lru.Cache
}

// matched are the kinds that a policy matches.
type matched struct {
	kinds []checkedKind
	// remarks explain why kinds may be missing. loose is set if other groups may add kinds of
	// the same names.
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

// kindsOf returns the kinds of the space that a policy matches by name.
func (s *schemaCache) kindsOf(space key.Space, set *ruleSet) (m matched) {
	catalog, err := s.kinds.Catalog(space, s.table.Snapshot())
	if catalog == nil {
		m.remarks = append(m.remarks, fmt.Sprintf("the %s are not checked by schemas: %v", set.what, err))
		return m
	}
	known := map[key.Resource]bool{}
	for i, test := range set.match {
		if len(test.Resources) == 0 || slices.Contains(test.Resources, "*") {
			m.remark(i, "gives no resources, so %s are not checked by the schemas of kinds; name resources and apiGroup to have that", set.what)
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
				if kindSchema, err := s.schemaOf(k); err == nil {
					m.kinds = append(m.kinds, checkedKind{k.GVK.Kind, kindSchema})
				} else {
					m.remark(i, "the schema of %s can't be read: %v", k.GVK.Kind, err)
				}
			}
		}
	}
	return m
}

// resourceNamed returns the stored kinds of a resource of one group, or of all groups.
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

// schemaOf returns the schema of a kind's objects, or nil.
func (s *schemaCache) schemaOf(k *kinds.Kind) (*openapi.Schema, error) {
	document, packed := openapi.Root(k.GVK.GroupVersion()), func() ([]byte, error) {
		all, err := openapi.Builtin()
		return all.V3[openapi.Root(k.GVK.GroupVersion())].Packed, err
	}
	if k.Custom != nil {
		document, packed = k.Custom.Hash()+"/"+k.GVK.Version, k.Custom.OpenAPI().V3
	}
	if known, ok := s.byDocument.Get(document); ok {
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
	s.byDocument.Add(document, all)
	return all[k.GVK], nil
}
