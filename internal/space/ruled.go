package space

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
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/kinds"
	"orrery.dev/orrery/internal/kinds/openapi"
	"orrery.dev/orrery/internal/wire"
)

const (
	// maxCheckedKinds bounds the kinds by whose schemas the rules of a Customizer are
	// checked, and maxTypeWarnings how many findings are told.
	maxCheckedKinds = 8
	maxTypeWarnings = 8
)

// ruled is the strategy of Customizers: it also checks the types in rules by the schemas of
// the kinds that they are about. A rule that can't be right for any of the kinds is refused,
// if all are named exactly; everything else that is found is a warning. Rules that are stored
// already are not refused for a schema that came later.
type ruled struct {
	validated
	server *Server
}

func (s ruled) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	errs := s.validated.Validate(ctx, obj)
	if len(errs) == 0 {
		errs, _ = s.server.checkTypes(ctx, obj, nil)
	}
	return errs
}

func (s ruled) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	errs := s.validated.ValidateUpdate(ctx, obj, old)
	if len(errs) == 0 {
		errs, _ = s.server.checkTypes(ctx, obj, old)
	}
	return errs
}

func (s ruled) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	_, warnings := s.server.checkTypes(ctx, obj, nil)
	return append(s.validated.WarningsOnCreate(ctx, obj), warnings...)
}

func (s ruled) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	_, warnings := s.server.checkTypes(ctx, obj, old)
	return append(s.validated.WarningsOnUpdate(ctx, obj, old), warnings...)
}

// checkTypes finds what of the rules of a Customizer does not fit the schemas of its kinds.
// old is nil if it is new.
func (s *Server) checkTypes(ctx context.Context, obj, old runtime.Object) (errs field.ErrorList, warnings []string) {
	space, _ := SpaceFrom(ctx)
	c, ok := customizerOf(obj)
	if !ok || len(c.Spec.Rules) == 0 {
		return nil, nil
	}
	about := s.kindsOf(space, c.Spec.Match)
	before, _ := customizerOf(old)
	for i, rule := range c.Spec.Rules {
		path := field.NewPath("spec", "rules").Index(i)
		var found field.ErrorList
		for _, k := range about.kinds {
			if err := s.config.Rules.CheckTypes(rule, k.schema, path); err != nil {
				err.Detail = "for " + k.name + ": " + err.Detail
				found = append(found, err)
			}
		}
		stored := before != nil && equality.Semantic.DeepEqual(before.Spec.Match, c.Spec.Match) &&
			slices.ContainsFunc(before.Spec.Rules, func(r v1alpha1.Rule) bool { return equality.Semantic.DeepEqual(r, rule) })
		if len(found) > 0 && len(found) == len(about.kinds) && !about.loose && about.remarks == nil && !stored {
			errs = append(errs, found[0])
			continue
		}
		for _, err := range found {
			warnings = append(warnings, wire.Brief(fmt.Sprintf("%s: %s", err.Field, err.Detail)))
		}
	}
	if before == nil || !equality.Semantic.DeepEqual(before.Spec.Match, c.Spec.Match) || !equality.Semantic.DeepEqual(before.Spec.Rules, c.Spec.Rules) {
		warnings = append(warnings, about.remarks...) // once: who leaves both alone has heard it
	}
	if more := len(warnings) - maxTypeWarnings; more > 0 {
		warnings = append(warnings[:maxTypeWarnings], fmt.Sprintf("and %d more", more))
	}
	return errs, warnings
}

func customizerOf(obj runtime.Object) (*v1alpha1.Customizer, bool) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || u == nil {
		return nil, false
	}
	c := &v1alpha1.Customizer{}
	return c, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, c) == nil
}

// matched are the kinds that a Customizer is about.
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

// kindsOf are the kinds that tests match by name, as far as the space has them.
func (s *Server) kindsOf(space key.Space, tests []v1alpha1.ObjectTest) (m matched) {
	catalog, err := s.config.Kinds.Catalog(space, s.config.Table.Snapshot())
	if catalog == nil {
		m.remarks = append(m.remarks, fmt.Sprintf("the rules are not checked by schemas: %v", err))
		return m
	}
	known := map[key.Resource]bool{}
	for i, test := range tests {
		if len(test.Resources) == 0 || slices.Contains(test.Resources, "*") {
			m.remark(i, "gives no resources, so rules are not checked by the schemas of kinds; name resources and apiGroup to have that")
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
