package write

import (
	"context"
	"fmt"
	"regexp/syntax"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/internal/hub/engine/expression"
	"orrery.dev/orrery/internal/hub/kinds/columns"
	"orrery.dev/orrery/internal/hub/kinds/schemacost"
)

const (
	// maxRules limits the rules of a CRD. A compiled rule takes about 50 KB.
	maxRules = 1000
	// maxPatterns limits the distinct patterns of a CRD, in instructions of about 40 bytes. The
	// library caches patterns forever. patternWeight is added for each pattern, because
	// a lookup becomes slower with their number.
	maxPatterns   = 200_000
	patternWeight = 100
	// maxBranches limits the branches of anyOf, oneOf, allOf and not in a CRD. Each value needs a
	// validator for each branch.
	maxBranches = 20_000
)

// weight is the cost of schemas besides their size.
type weight struct {
	rules, instructions, branches int
	patterns                      map[string]struct{}
	// hasDefaults reports whether a value has a default.
	hasDefaults bool
	// growing is the error of a rule whose value grows without limit, or nil.
	growing *field.Error
}

// validateWeight refuses a small CRD that needs much memory or CPU, because all spaces share these. It
// runs before the CRD is compiled.
func validateWeight(ctx context.Context, obj runtime.Object) field.ErrorList {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil
	}
	w := weight{patterns: map[string]struct{}{}}
	for i := range crd.Spec.Versions {
		if s := crd.Spec.Versions[i].Schema; s != nil {
			w.add(s.OpenAPIV3Schema)
		}
	}
	path := field.NewPath("spec", "versions")
	switch {
	case w.rules > maxRules:
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("more than %d rules in x-kubernetes-validations", maxRules))}
	case w.growing != nil:
		return field.ErrorList{w.growing}
	case w.instructions > maxPatterns:
		return field.ErrorList{field.Forbidden(path, "the patterns are too many, or too large when they are compiled")}
	case w.branches > maxBranches:
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("more than %d branches of anyOf, oneOf, allOf and not", maxBranches))}
	}
	if !w.hasDefaults {
		return nil
	}
	return validateDefaults(ctx, crd)
}

// validateDefaults refuses schemas whose defaults are too expensive to validate. Other checks refuse
// invalid schemas.
func validateDefaults(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	left := schemacost.MaxSteps
	for i, v := range crd.Spec.Versions {
		internal := &apiextensions.CustomResourceValidation{}
		if v.Schema == nil || apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, internal, nil) != nil {
			continue
		}
		structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
		if err != nil {
			continue
		}
		steps, err := schemacost.New(structural).Definition(ctx, left)
		if left -= steps; left < 0 || err != nil {
			path := field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema")
			return field.ErrorList{field.Forbidden(path, fmt.Sprintf("the defaults take more than %d steps to be validated: give them fewer values, or the schema fewer defaults", schemacost.MaxSteps))}
		}
	}
	return nil
}

// validateColumns refuses columns that may be too expensive to compute for one object. Such columns of
// the old CRD are kept: their cells are empty.
func validateColumns(obj, old runtime.Object) (problems field.ErrorList) {
	crd, _ := obj.(*apiextensionsv1.CustomResourceDefinition)
	if crd == nil {
		return nil
	}
	known := map[string][]apiextensionsv1.CustomResourceColumnDefinition{}
	if previous, _ := old.(*apiextensionsv1.CustomResourceDefinition); previous != nil {
		for _, v := range previous.Spec.Versions {
			known[v.Name] = v.AdditionalPrinterColumns
		}
	}
	versions := field.NewPath("spec", "versions")
	for i, v := range crd.Spec.Versions {
		path := versions.Index(i).Child("additionalPrinterColumns")
		problems = append(problems, columns.ValidateCustom(path, v.AdditionalPrinterColumns, known[v.Name])...)
	}
	return problems
}

func (w *weight) tooMuch() bool {
	return w.rules > maxRules || w.instructions > maxPatterns || w.branches > maxBranches || w.growing != nil
}

// add adds a schema and the schemas in it, until a limit is exceeded.
func (w *weight) add(s *apiextensionsv1.JSONSchemaProps) {
	if s == nil || w.tooMuch() {
		return
	}
	w.hasDefaults = w.hasDefaults || s.Default != nil
	w.addRules(s.XValidations)
	w.branches += len(s.AllOf) + len(s.OneOf) + len(s.AnyOf)
	w.addPattern(s.Pattern)
	if s.Items != nil {
		w.add(s.Items.Schema)
		w.addAll(s.Items.JSONSchemas)
	}
	w.addAll(s.AllOf)
	w.addAll(s.OneOf)
	w.addAll(s.AnyOf)
	w.add(s.Not)
	for _, named := range []map[string]apiextensionsv1.JSONSchemaProps{s.Properties, s.PatternProperties, s.Definitions} {
		for _, one := range named {
			w.add(&one)
		}
	}
	for pattern := range s.PatternProperties {
		w.addPattern(pattern)
	}
	for _, either := range []*apiextensionsv1.JSONSchemaPropsOrBool{s.AdditionalProperties, s.AdditionalItems} {
		if either != nil {
			w.add(either.Schema)
		}
	}
	for _, d := range s.Dependencies {
		w.add(d.Schema)
	}
}

// addRules adds the rules of a schema, until one computes a value that grows with each list around it.
// The library limits the cost of rules, but not that of comparing such values.
func (w *weight) addRules(rules []apiextensionsv1.ValidationRule) {
	w.rules += len(rules)
	for i := range rules {
		for _, text := range []string{rules[i].Rule, rules[i].MessageExpression} {
			if w.tooMuch() || text == "" {
				continue
			}
			if err := expression.CheckGrowth(text); err != nil {
				w.growing = field.Invalid(field.NewPath("spec", "versions"), text, "a rule in x-kubernetes-validations "+err.Error())
			}
		}
	}
}

func (w *weight) addAll(all []apiextensionsv1.JSONSchemaProps) {
	for i := range all {
		w.add(&all[i])
	}
}

// addPattern adds a new pattern. Other checks refuse invalid patterns.
func (w *weight) addPattern(pattern string) {
	if _, known := w.patterns[pattern]; known || pattern == "" || w.tooMuch() {
		return
	}
	w.patterns[pattern] = struct{}{}
	w.instructions += patternWeight
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return
	}
	if program, err := syntax.Compile(parsed.Simplify()); err == nil {
		w.instructions += len(program.Inst)
	}
}
