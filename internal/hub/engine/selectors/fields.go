package selectors

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/apis/v1alpha1"
)

// Field is a label selector of an object and its path.
type Field struct {
	Path     *field.Path
	Selector *metav1.LabelSelector
}

// selecting has the fields of an object that have label selectors, or are tests without any.
type selecting struct {
	Spec struct {
		Spaces    *v1alpha1.SpaceSelector     `json:"spaces"`
		Locations []v1alpha1.LocationSelector `json:"locations"`
		Downsync  []v1alpha1.ObjectTest       `json:"downsync"`
		Match     []v1alpha1.ObjectTest       `json:"match"`
		Admit     []v1alpha1.Admit            `json:"admit"`
		Claims    []v1alpha1.APIClaim         `json:"claims"`
		Kinds     []v1alpha1.RuleKinds        `json:"kinds"`
	} `json:"spec"`
}

// FieldsOf returns the label selectors of an object that the hub evaluates for others, in the order of
// its fields.
func FieldsOf(object map[string]any) ([]Field, error) {
	var read selecting
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &read); err != nil {
		return nil, fmt.Errorf("read the selectors of an object: %w", err)
	}
	return read.fields(), nil
}

func (read *selecting) fields() (all []Field) {
	spec := field.NewPath("spec")
	add := func(path *field.Path, s *metav1.LabelSelector) {
		if s != nil {
			all = append(all, Field{path, s})
		}
	}
	test := func(path *field.Path, t v1alpha1.ObjectTest) {
		for i := range t.NamespaceSelectors {
			add(path.Child("namespaceSelectors").Index(i), &t.NamespaceSelectors[i])
		}
		for i := range t.LabelSelectors {
			add(path.Child("labelSelectors").Index(i), &t.LabelSelectors[i])
		}
	}
	if read.Spec.Spaces != nil {
		add(spec.Child("spaces", "selector"), read.Spec.Spaces.Selector)
	}
	for i, l := range read.Spec.Locations {
		add(spec.Child("locations").Index(i).Child("selector"), l.Selector)
	}
	for i, t := range read.Spec.Downsync {
		test(spec.Child("downsync").Index(i), t)
	}
	for i, t := range read.Spec.Match {
		test(spec.Child("match").Index(i), t)
	}
	for i, a := range read.Spec.Admit {
		if a.Spaces != nil {
			add(spec.Child("admit").Index(i).Child("spaces", "selector"), a.Spaces.Selector)
		}
	}
	for i, c := range read.Spec.Claims {
		add(spec.Child("claims").Index(i).Child("selector"), c.Selector)
	}
	return all
}

// TestsIn returns how many tests a stored Placement, Customizer or KindRules has: one for each entry of
// downsync, match and kinds, and one for each requirement of its label selectors. A value that cannot be decoded has none.
func TestsIn(value []byte) int {
	var read selecting
	if json.Unmarshal(value, &read) != nil {
		return 0
	}
	var w Weight
	for _, one := range read.fields() {
		w = w.Plus(WeightOf(one.Selector))
	}
	return len(read.Spec.Downsync) + len(read.Spec.Match) + len(read.Spec.Kinds) + w.Requirements
}

// WeightIn is the weight of all label selectors of an object. One that can't be read weighs nothing.
func WeightIn(object map[string]any) (w Weight) {
	all, err := FieldsOf(object)
	if err != nil {
		return w
	}
	for _, one := range all {
		w = w.Plus(WeightOf(one.Selector))
	}
	return w
}
