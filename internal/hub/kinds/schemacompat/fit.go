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

// Definition is a definition that objects of others are checked against. It is safe for
// concurrent use; what is heavy in it is compiled when it is needed.
type Definition struct {
	crd     *apiextensionsv1.CustomResourceDefinition
	schemas map[string]func() (*compiled, error)
}

// compiled is the schema of one version.
type compiled struct {
	structural *structuralschema.Structural // nil: none, so that everything is right
	costs      *schemacost.Schema
	validator  schemacost.Validator
	keeps      bool // fields that it does not know
}

// New makes a Definition of a CRD, of which only the spec counts. The caller must not change
// that any more.
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

// CRD is what the Definition was made of. The caller must not change it.
func (d *Definition) CRD() *apiextensionsv1.CustomResourceDefinition { return d.crd }

func compile(props *apiextensionsv1.JSONSchemaProps, keeps bool) (*compiled, error) {
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
	return &compiled{structural, schemacost.New(structural), validator, keeps}, nil
}

// Fit says why an object, as JSON, is not right by the definition; nil if it is: its version
// is served, its fields are known, and their values are what the schema says. Expressions
// (x-kubernetes-validations) are not evaluated. An error says what is wrong with the
// definition itself.
func (d *Definition) Fit(object []byte) (*MisfitError, error) {
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(object, &u.Object); err != nil {
		return misfit(at(""), "%v", err), nil
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
	if !c.keeps {
		unknown := structuralpruning.PruneWithOptions(object, c.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
		if len(unknown) > 0 {
			return misfit(slices.Min(unknown), "unknown field there")
		}
	}
	structuraldefaulting.PruneNonNullableNullsWithoutDefaults(object, c.structural)
	if c.costs.Added(object, schemacost.MaxDefaults) > schemacost.MaxDefaults {
		return misfit(at(""), "the defaults there would add more than %d bytes", schemacost.MaxDefaults)
	}
	structuraldefaulting.Default(object, c.structural)
	if c.costs.Exceeds(object) {
		return misfit(at(""), "it takes more than %d steps to be validated there", schemacost.MaxSteps)
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
		return misfit(at(""), "%s", explain(first))
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
