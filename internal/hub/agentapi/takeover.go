package agentapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// GrantedTakeovers returns the ownership marks, as NAME.UID8, that a Location takes over now: those in
// its spec without an existing Location, and without an older Location that takes them over.
func GrantedTakeovers(t *table.Table, l key.Location) (granted []string) {
	row, _ := t.Get(l.Key())
	if row == nil {
		return nil
	}
	for _, mark := range takenOver(row) {
		if exists(t, mark) || older(t, row, mark) != "" {
			continue
		}
		granted = append(granted, mark)
	}
	slices.Sort(granted)
	return granted
}

// takenOver returns the ownership marks in a Location's spec.
func takenOver(location *table.Row) []string {
	var l struct {
		Spec struct {
			TakesOver []string `json:"takesOver"`
		} `json:"spec"`
	}
	if json.Unmarshal(location.Value, &l) != nil { // the schema refuses such an object
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(l.Spec.TakesOver)))
}

// exists reports whether the Location of an ownership mark exists, even if it is being deleted.
func exists(t *table.Table, mark string) bool {
	location := key.MarkedLocation(mark)
	row, _ := t.Get(location.Key())
	return row != nil && key.OwnershipMark(location, row.Meta.UID) == mark
}

// older returns the key of a Location that takes over a mark and was created before the one of a row,
// or "".
func older(t *table.Table, than *table.Row, mark string) (name string) {
	t.Snapshot().Ascend(key.ResourcePrefix(key.Root, key.Locations), func(row *table.Row) bool {
		if row.Key != than.Key && row.CreateRev < than.CreateRev && slices.Contains(takenOver(row), mark) {
			name = row.Key
		}
		return name == ""
	})
	return name
}

// TakeoverAdmission refuses Locations that take over marks of existing or other Locations.
func TakeoverAdmission(t *table.Table) admission.ValidationInterface { return admitter{t} }

type admitter struct{ table *table.Table }

// Handles implements admission.Interface.
func (admitter) Handles(o admission.Operation) bool {
	return o == admission.Create || o == admission.Update
}

// Validate implements admission.ValidationInterface.
func (a admitter) Validate(_ context.Context, attributes admission.Attributes, _ admission.ObjectInterfaces) error {
	if key.NewResource(attributes.GetResource().Group, attributes.GetResource().Resource) != key.Locations || attributes.GetSubresource() != "" {
		return nil
	}
	before := named(attributes.GetOldObject())
	var problems field.ErrorList
	for i, mark := range named(attributes.GetObject()) {
		if slices.Contains(before, mark) {
			continue // it was accepted before
		}
		if reason := a.refuses(key.Location(attributes.GetName()), mark); reason != "" {
			problems = append(problems, field.Invalid(field.NewPath("spec", "takesOver").Index(i), mark, reason))
		}
	}
	if len(problems) > 0 {
		return apierrors.NewInvalid(attributes.GetKind().GroupKind(), attributes.GetName(), problems)
	}
	return nil
}

// refuses returns the reason why a Location can't take over a mark, or "".
func (a admitter) refuses(l key.Location, mark string) (reason string) {
	if exists(a.table, mark) {
		return fmt.Sprintf("the location %s exists, and objects with this mark belong to it; remove it first", key.MarkedLocation(mark))
	}
	a.table.Snapshot().Ascend(key.ResourcePrefix(key.Root, key.Locations), func(row *table.Row) bool {
		if row.Key != l.Key() && slices.Contains(takenOver(row), mark) {
			reason = "another location takes it over"
		}
		return reason == ""
	})
	return reason
}

// named returns the marks in the spec of a Location, or nil.
func named(o runtime.Object) []string {
	u, ok := o.(*unstructured.Unstructured)
	if !ok || u == nil {
		return nil
	}
	names, _, err := unstructured.NestedStringSlice(u.Object, "spec", "takesOver")
	if err != nil { // the schema refuses such an object
		return nil
	}
	return names
}
