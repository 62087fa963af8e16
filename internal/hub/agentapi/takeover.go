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

// GrantedTakeovers are the marks, as NAME.UID8, that a Location takes over now: of those in its
// spec, the ones of which no Location exists, and that none which is older takes over.
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

// takenOver are the marks that a Location's spec names.
func takenOver(location *table.Row) []string {
	var l struct {
		Spec struct {
			TakesOver []string `json:"takesOver"`
		} `json:"spec"`
	}
	if json.Unmarshal(location.Value, &l) != nil { // the schema refuses it
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(l.Spec.TakesOver)))
}

// exists says whether there is a Location that marks objects so, if only until it is
// deleted.
func exists(t *table.Table, mark string) bool {
	of := key.MarkedLocation(mark)
	row, _ := t.Get(of.Key())
	return row != nil && key.OwnershipMark(of, row.Meta.UID) == mark
}

// older is the Location that takes over a mark, and was created before the one of a row;
// empty: there is none.
func older(t *table.Table, than *table.Row, mark string) (name string) {
	t.Snapshot().Ascend(key.ResourcePrefix(key.Root, key.Locations), func(row *table.Row) bool {
		if row.Key != than.Key && row.CreateRev < than.CreateRev && slices.Contains(takenOver(row), mark) {
			name = row.Key
		}
		return name == ""
	})
	return name
}

// TakeoverAdmission refuses Locations that take over what is not theirs to take.
func TakeoverAdmission(t *table.Table) admission.ValidationInterface { return admitter{t} }

type admitter struct{ table *table.Table }

// Handles implements admission.Interface.
func (admitter) Handles(o admission.Operation) bool {
	return o == admission.Create || o == admission.Update
}

// Validate implements admission.ValidationInterface.
func (a admitter) Validate(_ context.Context, of admission.Attributes, _ admission.ObjectInterfaces) error {
	if key.NewResource(of.GetResource().Group, of.GetResource().Resource) != key.Locations || of.GetSubresource() != "" {
		return nil
	}
	before := named(of.GetOldObject())
	var problems field.ErrorList
	for i, mark := range named(of.GetObject()) {
		if slices.Contains(before, mark) {
			continue // it was asked when it was written
		}
		if why := a.refuses(key.Location(of.GetName()), mark); why != "" {
			problems = append(problems, field.Invalid(field.NewPath("spec", "takesOver").Index(i), mark, why))
		}
	}
	if len(problems) > 0 {
		return apierrors.NewInvalid(of.GetKind().GroupKind(), of.GetName(), problems)
	}
	return nil
}

// refuses says why a Location can't take over a mark; empty: it can.
func (a admitter) refuses(l key.Location, mark string) (why string) {
	if exists(a.table, mark) {
		return fmt.Sprintf("the location %s exists, and what has this mark is its own; remove it first", key.MarkedLocation(mark))
	}
	a.table.Snapshot().Ascend(key.ResourcePrefix(key.Root, key.Locations), func(row *table.Row) bool {
		if row.Key != l.Key() && slices.Contains(takenOver(row), mark) {
			why = "another location takes it over"
		}
		return why == ""
	})
	return why
}

// named are the marks that a Location names which is written or was there before.
func named(o runtime.Object) []string {
	u, ok := o.(*unstructured.Unstructured)
	if !ok || u == nil {
		return nil
	}
	marks, _, err := unstructured.NestedStringSlice(u.Object, "spec", "takesOver")
	if err != nil { // the schema refuses it
		return nil
	}
	return marks
}
