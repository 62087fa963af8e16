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
	// maxRules is how many rules a CRD may have. One takes about 50 KB when it is compiled.
	maxRules = 1000
	// maxPatterns bounds the different patterns of a CRD, in instructions. One takes about
	// 40 bytes, and the library never forgets a pattern. patternWeight is what a pattern
	// counts besides: what it takes to find it grows with their number.
	maxPatterns   = 200_000
	patternWeight = 100
	// maxBranches is how many branches of anyOf, oneOf, allOf and not a CRD may have. A validator
	// of each is made for each value.
	maxBranches = 20_000
)

// weight is what schemas cost apart from their bytes.
type weight struct {
	rules, instructions, branches int
	patterns                      map[string]struct{}
	// hasDefaults reports whether a value has a default.
	hasDefaults bool
	// growing is a rule that can't be used, with the reason.
	growing *field.Error
}

// validateWeight refuses a CRD that is small and costs the hub much: that takes all spaces'
// memory, and is found out before it is compiled.
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

// validateDefaults refuses schemas whose defaults take too much to be validated. What is wrong
// with a schema is found elsewhere.
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

// validateColumns refuses columns that could take very much for one object. Columns that the CRD
// has already are kept: they are empty.
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

// add adds a schema and those in it, until it is too much.
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

// addRules adds the rules of a schema, until one makes a value that grows with each list it lies
// in. The library evaluates rules, and does not count what a comparison of such a value takes.
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

// addPattern adds a pattern that was not there yet. One that is wrong is refused elsewhere.
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
