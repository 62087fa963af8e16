package write

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/aggregate"
	"orrery.dev/orrery/internal/hub/engine/kindrules"
	"orrery.dev/orrery/internal/hub/engine/rules"
	"orrery.dev/orrery/internal/hub/engine/selectors"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// validated is the strategy of policies: it validates label selectors, paths and other fields that
// the schema can't.
type validated struct {
	rest.RESTCreateUpdateStrategy
	validate func(key.Space, map[string]any) field.ErrorList
}

func (s validated) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return append(s.RESTCreateUpdateStrategy.Validate(ctx, obj), s.more(ctx, obj)...)
}

func (s validated) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return append(s.RESTCreateUpdateStrategy.ValidateUpdate(ctx, obj, old), s.more(ctx, obj)...)
}

func (s validated) more(ctx context.Context, obj runtime.Object) field.ErrorList {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	space, _ := SpaceFromContext(ctx)
	return s.validate(space, u.Object)
}

// validatePlacement validates a Placement. It has no errors for an object that the schema refuses.
func validatePlacement(s key.Space, object map[string]any) (errs field.ErrorList) {
	var p v1alpha1.Placement
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &p) != nil {
		return nil
	}
	errs = append(validateWhere(p.Spec.Locations), validateSeats(&p.Spec)...)
	if p.Spec.Spaces != nil && s != key.Root {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "spaces"), "only Placements in the space root reach other spaces"))
	}
	errs = append(errs, validateReach(p.Spec.Spaces, "Placement")...)
	for i, d := range p.Spec.Downsync {
		errs = append(errs, validateTest(d.ObjectTest, field.NewPath("spec", "downsync").Index(i))...)
	}
	return append(errs, validateUpsync(p.Spec.Upsync)...)
}

// maxUpsync limits the bytes of the names in a Placement's upsync entries, which each location's agent
// receives.
const maxUpsync = 32 << 10

// validateUpsync validates the upsync entries of a Placement.
func validateUpsync(entries []v1alpha1.Upsync) (errs field.ErrorList) {
	path, size := field.NewPath("spec", "upsync"), 0
	for i, e := range entries {
		for j, name := range e.Namespaces {
			if problems := utilvalidation.IsDNS1123Label(name); len(problems) > 0 {
				errs = append(errs, field.Invalid(path.Index(i).Child("namespaces").Index(j), name, strings.Join(problems, "; ")))
			}
		}
		for j, name := range e.Names {
			if problems := content.IsPathSegmentName(name); len(problems) > 0 || name == "" {
				errs = append(errs, field.Invalid(path.Index(i).Child("names").Index(j), name, "want the name of an object"))
			}
		}
		for _, name := range slices.Concat([]string{e.APIGroup}, e.Resources, e.Namespaces, e.Names) {
			size += len(name)
		}
	}
	if size > maxUpsync {
		errs = append(errs, field.TooLong(path, "", maxUpsync))
	}
	return errs
}

// policyValidator validates Customizers, Summaries and KindRules, whose rules and expressions are compiled.
type policyValidator struct {
	table     *table.Table
	rules     *rules.Engine
	summaries *aggregate.Language
	kindRules *kindrules.Language
}

// maxWithData limits the Customizers of a space that use ConfigMaps. A change of a ConfigMap
// recompiles these for all locations. Concurrent writes may exceed the limit.
const maxWithData = 32

// validateDataUse enforces maxWithData for a Customizer that uses ConfigMaps.
func (v *policyValidator) validateDataUse(space key.Space, name string) field.ErrorList {
	uses := func(row *table.Row) bool { return row != nil && gjson.GetBytes(row.Value, "spec.data.0").Exists() }
	state, others := v.table.Snapshot(), 0
	if uses(state.Get(key.Object{Space: space, Identity: key.Identity{Resource: key.Customizers, Name: name}}.Key())) {
		return nil
	}
	state.Ascend(key.ResourcePrefix(space, key.Customizers), func(row *table.Row) bool {
		if uses(row) {
			others++
		}
		return true
	})
	if others < maxWithData {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "data"), fmt.Sprintf("%d Customizers of the space use ConfigMaps already", others))}
}

// validateCustomizer validates the selectors and rules of a Customizer. It has no errors for an
// object that the schema refuses.
func (v *policyValidator) validateCustomizer(space key.Space, object map[string]any) (errs field.ErrorList) {
	var c v1alpha1.Customizer
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &c) != nil {
		return nil
	}
	errs = validateWhere(c.Spec.Locations)
	for i, test := range c.Spec.Match {
		errs = append(errs, validateTest(test, field.NewPath("spec", "match").Index(i))...)
	}
	if len(c.Spec.Data) > 0 {
		errs = append(errs, v.validateDataUse(space, c.Name)...)
	}
	names := make([]string, len(c.Spec.Data))
	for i, d := range c.Spec.Data {
		names[i] = d.Name
	}
	return append(errs, v.rules.Check(c.Spec.Rules, field.NewPath("spec", "rules"), names...)...)
}

// validateSummary validates the tests and expressions of a Summary. It has no errors for an object
// that the schema refuses.
func (v *policyValidator) validateSummary(_ key.Space, object map[string]any) (errs field.ErrorList) {
	var m v1alpha1.Summary
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &m) != nil {
		return nil
	}
	for i, test := range m.Spec.Match {
		errs = append(errs, validateTest(test, field.NewPath("spec", "match").Index(i))...)
	}
	_, refused := v.summaries.Compile(&m.Spec, field.NewPath("spec"))
	return append(errs, refused...)
}

// validateKindRules validates the expressions of a KindRules. It has no errors for an object that the
// schema refuses.
func (v *policyValidator) validateKindRules(_ key.Space, object map[string]any) field.ErrorList {
	var k v1alpha1.KindRules
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &k) != nil {
		return nil
	}
	return v.kindRules.Check(&k.Spec, field.NewPath("spec"))
}

// validateGrant validates a Grant. It has no errors for an object that the schema refuses.
func validateGrant(s key.Space, object map[string]any) (errs field.ErrorList) {
	var g v1alpha1.Grant
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &g) != nil {
		return nil
	}
	spec := field.NewPath("spec")
	if s != key.Root {
		if g.Spec.Spaces != nil {
			errs = append(errs, field.Forbidden(spec.Child("spaces"), "only Grants in the space root reach other spaces"))
		}
		for i, r := range g.Spec.Rules {
			if len(r.NonResourceURLs) > 0 {
				errs = append(errs, field.Forbidden(spec.Child("rules").Index(i).Child("nonResourceURLs"), "only Grants in the space root are about paths of the hub"))
			}
		}
	}
	return append(errs, validateReach(g.Spec.Spaces, "Grant")...)
}

// validateReach validates the space selector of an object of root.
func validateReach(selector *v1alpha1.SpaceSelector, kind string) (errs field.ErrorList) {
	if selector == nil {
		return nil
	}
	spaces := field.NewPath("spec", "spaces")
	for i, name := range selector.Names {
		path := spaces.Child("names").Index(i)
		if err := key.ValidateName(name); err != nil {
			errs = append(errs, field.Invalid(path, name, err.Error()))
		} else if key.Space(name) == key.Root {
			errs = append(errs, field.Invalid(path, name, "a "+kind+" about root has no spaces"))
		}
	}
	return append(errs, validateSelector(selector.Selector, spaces.Child("selector"))...)
}

func validateWhere(entries []v1alpha1.LocationSelector) (errs field.ErrorList) {
	for i, l := range entries {
		errs = append(errs, validateSelector(l.Selector, field.NewPath("spec", "locations").Index(i).Child("selector"))...)
	}
	return errs
}

func validateTest(test v1alpha1.ObjectTest, path *field.Path) (errs field.ErrorList) {
	for i := range test.NamespaceSelectors {
		errs = append(errs, validateSelector(&test.NamespaceSelectors[i], path.Child("namespaceSelectors").Index(i))...)
	}
	for i := range test.LabelSelectors {
		errs = append(errs, validateSelector(&test.LabelSelectors[i], path.Child("labelSelectors").Index(i))...)
	}
	return errs
}

func validateSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
}

// maxAdmitKinds limits the kinds in all entries of a Location's admit.
const maxAdmitKinds = 4096

// weighed is the strategy of a kind with label selectors. It refuses an object whose selectors are too
// expensive to evaluate. A stored object above the limit can be changed as long as its selectors
// do not grow. Package quota limits the policies of a space as a whole.
type weighed struct {
	rest.RESTCreateUpdateStrategy
	resource key.Resource
}

func (s weighed) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return append(s.RESTCreateUpdateStrategy.Validate(ctx, obj), s.weigh(obj, nil)...)
}

func (s weighed) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return append(s.RESTCreateUpdateStrategy.ValidateUpdate(ctx, obj, old), s.weigh(obj, old)...)
}

// weigh checks the cost of the selectors of an object; old is nil if it is new. It has no errors for
// an object that the schema refuses.
func (s weighed) weigh(obj, old runtime.Object) field.ErrorList {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	all, err := selectors.FieldsOf(u.Object)
	if err != nil {
		return nil
	}
	var before selectors.Weight
	if o, ok := old.(*unstructured.Unstructured); ok {
		before = selectors.WeightIn(o.Object)
	}
	if s.resource == key.Locations {
		if errs := weighKinds(u.Object, old); len(errs) > 0 {
			return errs
		}
	}
	var sum selectors.Weight
	for _, one := range all {
		sum = sum.Plus(selectors.WeightOf(one.Selector))
		switch {
		case sum.Requirements <= before.Requirements && sum.Values <= before.Values:
		case sum.Requirements > selectors.MaxRequirements:
			return field.ErrorList{field.Invalid(one.Path, sum.Requirements, fmt.Sprintf("the label selectors up to this one have more than %d requirements, the limit of one object: use fewer, or several objects", selectors.MaxRequirements))}
		case sum.Values > selectors.MaxValues:
			return field.ErrorList{field.Invalid(one.Path, sum.Values, fmt.Sprintf("the label selectors up to this one have more than %d values, the limit of one object: use fewer, or several objects", selectors.MaxValues))}
		}
	}
	return nil
}

// weighKinds applies maxAdmitKinds to a Location.
func weighKinds(object map[string]any, old runtime.Object) field.ErrorList {
	var l v1alpha1.Location
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &l) != nil {
		return nil
	}
	if before, ok := old.(*unstructured.Unstructured); ok && equality.Semantic.DeepEqual(object["spec"], before.Object["spec"]) {
		return nil
	}
	kinds := 0
	for i, a := range l.Spec.Admit {
		if kinds += len(a.Kinds); kinds > maxAdmitKinds {
			return field.ErrorList{field.Invalid(field.NewPath("spec", "admit").Index(i).Child("kinds"), kinds, fmt.Sprintf("the entries up to this one have more than %d kinds, the limit of one Location: give an entry without kinds, or apiGroup alone", maxAdmitKinds))}
		}
	}
	return nil
}
