package schemacompat

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	structurallisttype "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/internal/hub/kinds/schemacost"
)

// Definition is a definition by which objects of other spaces are checked. It is safe for concurrent
// use. It compiles its schemas when they are first needed.
type Definition struct {
	crd     *apiextensionsv1.CustomResourceDefinition
	schemas map[string]func() (*compiled, error)
}

// compiled is the schema of one version.
type compiled struct {
	structural  *structuralschema.Structural // nil for no schema, so that every object is valid
	costs       *schemacost.Schema
	validator   schemacost.Validator
	keepUnknown bool // unknown fields are valid
}

// New returns the Definition of the spec of a CRD. The caller must not change the spec afterwards.
func New(crd *apiextensionsv1.CustomResourceDefinition) *Definition {
	d := &Definition{crd, map[string]func() (*compiled, error){}}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Served {
			d.schemas[v.Name] = sync.OnceValues(func() (*compiled, error) { return compile(schemaOf(v), crd.Spec.PreserveUnknownFields) })
		}
	}
	return d
}

// CRD returns the CRD of the Definition. The caller must not change it.
func (d *Definition) CRD() *apiextensionsv1.CustomResourceDefinition { return d.crd }

func compile(props *apiextensionsv1.JSONSchemaProps, keepUnknown bool) (*compiled, error) {
	if props == nil {
		return &compiled{}, nil
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal, nil); err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	validator, err := schemacost.NewValidator(internal)
	if err != nil {
		return nil, fmt.Errorf("compile validation: %w", err)
	}
	return &compiled{structural, schemacost.New(structural), validator, keepUnknown}, nil
}

// Fit returns a MisfitError if an object, as JSON, is invalid by the definition; nil if its version is
// served, and its fields are known and have valid values. It does not evaluate expressions
// (x-kubernetes-validations). The second result is an error of the definition itself.
func (d *Definition) Fit(object []byte) (*MisfitError, error) {
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(object, &u.Object); err != nil {
		return misfit(locate(""), "%v", err), nil
	}
	if m := d.fitKind(u); m != nil {
		return m, nil
	}
	c, err := d.schemas[u.GroupVersionKind().Version]()
	if err != nil || c.structural == nil {
		return nil, err
	}
	return c.fit(u.Object), nil
}

// fitKind is Fit of what does not depend on the version's schema.
func (d *Definition) fitKind(u *unstructured.Unstructured) *MisfitError {
	gv, err := schema.ParseGroupVersion(u.GetAPIVersion())
	if err != nil {
		return misfit("apiVersion", "%v", err)
	}
	namespaced := d.crd.Spec.Scope == apiextensionsv1.NamespaceScoped
	switch {
	case d.schemas[gv.Version] == nil:
		return misfit("apiVersion", "version %s is not served there, %s", gv.Version, versionsOf(d.crd))
	case u.GetKind() != d.crd.Spec.Names.Kind:
		return misfit("kind", "%s there, %s here", d.crd.Spec.Names.Kind, u.GetKind())
	case namespaced && u.GetNamespace() == "":
		return misfit("metadata.namespace", "its objects are in namespaces there, and this is in none")
	case !namespaced && u.GetNamespace() != "":
		return misfit("metadata.namespace", "its objects are in no namespace there, and this is in one")
	}
	return nil
}

// fit checks an object, and may change it: first what would be dropped without a word, then
// what would be refused.
func (c *compiled) fit(object map[string]any) *MisfitError {
	if !c.keepUnknown {
		unknown := structuralpruning.PruneWithOptions(object, c.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
		if len(unknown) > 0 {
			return misfit(slices.Min(unknown), "unknown field there")
		}
	}
	structuraldefaulting.PruneNonNullableNullsWithoutDefaults(object, c.structural)
	if c.costs.Added(object, schemacost.MaxDefaults) > schemacost.MaxDefaults {
		return misfit(locate(""), "the defaults there would add more than %d bytes", schemacost.MaxDefaults)
	}
	structuraldefaulting.Default(object, c.structural)
	if c.costs.Exceeds(object) {
		return misfit(locate(""), "it takes more than %d steps to be validated there", schemacost.MaxSteps)
	}
	errs := firstErrors(object, c.validator)
	errs = append(errs, structurallisttype.ValidateListSetsAndMaps(nil, c.structural, object)...)
	if len(errs) == 0 {
		return nil
	}
	first := slices.MinFunc(errs, func(a, b *field.Error) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Detail, b.Detail))
	})
	if first.Field == (*field.Path)(nil).String() || first.Field == "" {
		return misfit(locate(""), "%s", explain(first))
	}
	return misfit(first.Field, "%s", explain(first))
}

// maxDescents bounds how often a value is validated again for the first of very many errors.
const maxDescents = 8

// firstErrors returns the errors of a value; if there are too many to find all, those of the first value below it
// that has few. Which ones these are depends on the value alone.
func firstErrors(value any, v schemacost.Validator) field.ErrorList {
	child := schemacost.Child{Value: value, Validator: v}
	for range maxDescents {
		errs, isCut := schemacost.IsCut(validation.ValidateCustomResource(child.Path, child.Value, child.Validator))
		if !isCut {
			return errs
		}
		isFound := false
		for below := range child.Validator.Children(child.Path, child.Value) {
			if isFound = len(validation.ValidateCustomResource(below.Path, below.Value, below.Validator)) > 0; isFound {
				child = below
				break
			}
		}
		switch {
		case isFound:
		case child.Validator.IsPlain(): // they are of the value itself
			return errs
		default:
			return field.ErrorList{manyErrors(child.Path)}
		}
	}
	return field.ErrorList{manyErrors(child.Path)}
}

func manyErrors(path *field.Path) *field.Error {
	return field.Invalid(path, nil, fmt.Sprintf("there are %d errors or more in it", schemacost.MaxErrors))
}

// explain is an error without its value, which may be anything.
func explain(e *field.Error) string {
	detail := e.Detail
	if name, rest, isNamed := strings.Cut(detail, " in body "); isNamed && strings.HasSuffix(e.Field, name) {
		detail = rest
	}
	if detail == "" {
		return e.Type.String()
	}
	return e.Type.String() + ": " + detail
}
