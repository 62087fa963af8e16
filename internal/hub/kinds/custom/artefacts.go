package custom

import (
	"fmt"
	"maps"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/openapi"
	"orrery.dev/orrery/internal/hub/kinds/schemacost"
)

// artefacts are the compiled parts of a CRD, which take much memory. Each is made when it
// is first asked for, so making artefacts itself is cheap.
type artefacts struct {
	source     *source
	structural func() (map[string]*structuralschema.Structural, error)
	// costs are what objects of each version take.
	costs      func() (map[string]*schemacost.Schema, error)
	types      func() (managedfields.TypeConverter, error)
	strategies map[string]func() (*strategies, error)
	documents  map[string]*openapi.Custom
}

func newArtefacts(d *Definition) *artefacts {
	a := &artefacts{
		source:     &source{unpack: d.unpack},
		strategies: map[string]func() (*strategies, error){},
		documents:  map[string]*openapi.Custom{},
	}
	a.structural = sync.OnceValues(func() (map[string]*structuralschema.Structural, error) { return d.compileStructural(a.source) })
	a.types = sync.OnceValues(func() (managedfields.TypeConverter, error) { return d.compileTypes(a.source) })
	a.costs = sync.OnceValues(a.compileCosts)
	for _, v := range d.versions {
		a.strategies[v.Name] = sync.OnceValues(func() (*strategies, error) { return d.compileStrategies(a, v) })
		a.documents[v.Name] = openapi.Describe(d.unpack, v.Name)
	}
	return a
}

// schemaOf is the schema of a version in the library's own form; nil if it has none.
func schemaOf(crd *apiextensionsv1.CustomResourceDefinition, version string) (*apiextensions.JSONSchemaProps, error) {
	for _, v := range crd.Spec.Versions {
		if v.Name != version {
			continue
		}
		if v.Schema == nil {
			return nil, nil
		}
		out := &apiextensions.CustomResourceValidation{}
		if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, out, nil); err != nil {
			return nil, fmt.Errorf("convert schema of %q in CRD %q: %w", version, crd.Name, err)
		}
		return out.OpenAPIV3Schema, nil
	}
	return nil, fmt.Errorf("find schema in CRD %q: no version %q", crd.Name, version)
}

func (d *Definition) compileStructural(from *source) (map[string]*structuralschema.Structural, error) {
	crd, err := from.get()
	if err != nil {
		return nil, err
	}
	schemas := map[string]*structuralschema.Structural{}
	for _, v := range d.versions {
		props, err := schemaOf(crd, v.Name)
		if err != nil {
			return nil, err
		}
		if props == nil {
			continue
		}
		s, err := structuralschema.NewStructural(props)
		if err != nil {
			if d.preserve {
				continue
			}
			return nil, fmt.Errorf("compile schema of %q in CRD %q: %w", v.Name, d.name(), err)
		}
		if !d.preserve {
			// Defaults are shared with props until they are copied.
			s = s.DeepCopy()
			if err := structuraldefaulting.PruneDefaults(s); err != nil {
				return nil, fmt.Errorf("prune defaults of %q in CRD %q: %w", v.Name, d.name(), err)
			}
		}
		schemas[v.Name] = s
	}
	return schemas, nil
}

func (a *artefacts) compileCosts() (map[string]*schemacost.Schema, error) {
	structural, err := a.structural()
	if err != nil {
		return nil, err
	}
	costs := map[string]*schemacost.Schema{}
	for version, s := range structural {
		costs[version] = schemacost.New(s)
	}
	return costs, nil
}

// compileTypes makes one set of merge rules of all versions: managed fields may
// have been written in any of them.
func (d *Definition) compileTypes(from *source) (managedfields.TypeConverter, error) {
	crd, err := from.get()
	if err != nil {
		return nil, err
	}
	models := map[string]*spec.Schema{}
	for _, v := range d.versions {
		document, err := builder.BuildOpenAPIV3(crd, v.Name, builder.Options{})
		if err != nil {
			return nil, fmt.Errorf("describe %q of CRD %q: %w", v.Name, d.name(), err)
		}
		maps.Copy(models, document.Components.Schemas)
	}
	types, err := managedfields.NewTypeConverter(models, d.preserve)
	if err != nil {
		return nil, fmt.Errorf("compile merge rules of CRD %q: %w", d.name(), err)
	}
	return types, nil
}

// strategies are the compiled strategies of one version; status is nil if the
// version has no such subresource.
type strategies struct {
	main, status kinds.Strategy
	cost         *schemacost.Schema
	// rules are evaluated after both.
	rules rules
}

func (d *Definition) compileStrategies(a *artefacts, v apiextensionsv1.CustomResourceDefinitionVersion) (*strategies, error) {
	structural, err := a.structural()
	if err != nil {
		return nil, err
	}
	crd, err := a.source.get()
	if err != nil {
		return nil, err
	}
	props, err := schemaOf(crd, v.Name)
	if err != nil {
		return nil, err
	}
	validator, err := schemacost.NewValidator(props)
	if err != nil {
		return nil, fmt.Errorf("compile validation of %q in CRD %q: %w", v.Name, d.name(), err)
	}
	statusSpec, scaleSpec := subresources(v)
	var statusValidator validation.SchemaValidator
	if statusSpec != nil && props != nil {
		if status, ok := props.Properties["status"]; ok {
			if statusValidator, err = schemacost.NewValidator(&status); err != nil {
				return nil, fmt.Errorf("compile status validation of %q in CRD %q: %w", v.Name, d.name(), err)
			}
		}
	}
	gv := d.gv(v.Name)
	compiled, schema := newRules(structural[v.Name])
	main := customresource.NewStrategy(d.typer, d.namespaced, gv.WithKind(d.names.Kind),
		validator, statusValidator, schema, statusSpec, scaleSpec, v.SelectableFields)
	costs, err := a.costs()
	if err != nil {
		return nil, err
	}
	s := &strategies{main: main, cost: costs[v.Name], rules: compiled}
	if statusSpec != nil {
		s.status = customresource.NewStatusStrategy(main)
	}
	return s, nil
}

// lazyTypes merges by the rules of a CRD, compiled when they are needed.
type lazyTypes struct{ def *Definition }

var _ managedfields.TypeConverter = lazyTypes{}

func (t lazyTypes) ObjectToTyped(o runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	types, err := t.def.artefacts().types()
	if err != nil {
		return nil, err
	}
	return types.ObjectToTyped(o, opts...)
}

func (t lazyTypes) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	types, err := t.def.artefacts().types()
	if err != nil {
		return nil, err
	}
	return types.TypedToObject(v)
}
