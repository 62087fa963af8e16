package write_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/admission"
)

// reviewer is asked about each object after it was validated and before it is stored.
type reviewer func(name string)

var _ admission.ValidationInterface = reviewer(nil)

// Handles implements admission.Interface.
func (reviewer) Handles(admission.Operation) bool { return true }

// Validate implements admission.ValidationInterface.
func (r reviewer) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	r(a.GetName())
	return nil
}

// review has a function called while a CRD of a name is validated.
func (h *hub) review(name string, during func()) {
	h.t.Helper()
	h.config.Admission = reviewer(func(reviewed string) {
		if reviewed == name {
			during()
		}
	})
	h.serve(nil)
}

// TestDefinitionsAreValidatedBeforeTheirTurn: while a CRD is validated, others of its space are
// written, in whichever way it is written.
func TestDefinitionsAreValidatedBeforeTheirTurn(t *testing.T) {
	h := newHub(t)
	const name = "widgets.example.com"
	rounds := 0
	h.review(name, func() {
		if h.server.IsDefining("a") {
			t.Error("a CRD is validated in the turn of its space") // and the next would wait for ever
			return
		}
		rounds++
		other := string(rune('a'+rounds)) + "others"
		a := h.must(201, h.do("POST", "a", crds, crd(other, "Other"+fmt.Sprint(rounds), widgetSpec(nil))))
		if condition(a, "Established") != "True" {
			t.Errorf("created meanwhile: %s", a.raw)
		}
	})
	widgets := crd("widgets", "Widget", widgetSpec(nil))
	h.must(201, h.do("POST", "a", crds+"?dryRun=All", widgets))
	h.must(201, h.do("POST", "a", crds, widgets))
	label := func(value string) object { return object{"metadata": object{"labels": object{"l": value}}} }
	h.must(200, h.do("PATCH", "a", crds+"/"+name, label("1"), "Content-Type", merge))
	h.must(200, h.do("PATCH", "a", crds+"/"+name+"?fieldManager=m&force=true", widgets, "Content-Type", "application/apply-patch+yaml"))
	h.must(200, h.do("PATCH", "a", crds+"/"+name+"/status", object{"status": object{"storedVersions": []any{"v1"}}}, "Content-Type", merge))
	now := h.do("PATCH", "a", crds+"/"+name, label("2"), "Content-Type", merge)
	h.must(200, h.do("PUT", "a", crds+"/"+name, now.body))
	if rounds < 6 {
		t.Errorf("%d rounds", rounds)
	}
}

// TestDefinitionChangesWhileItIsValidated: a change is validated again if the CRD has changed meanwhile.
func TestDefinitionChangesWhileItIsValidated(t *testing.T) {
	h := newHub(t)
	const path = crds + "/widgets.example.com"
	h.must(201, h.do("POST", "a", crds, crd("widgets", "Widget", widgetSpec(nil))))
	label := func(name string) object { return object{"metadata": object{"labels": object{name: "set"}}} }
	rounds := 0
	between := func(name string) func() {
		return func() {
			if rounds++; rounds == 1 { // and not during the change itself
				h.must(200, h.do("PATCH", "a", path, label(name), "Content-Type", merge))
			}
		}
	}
	h.review("widgets.example.com", between("first"))
	got := h.must(200, h.do("PATCH", "a", path, label("second"), "Content-Type", merge))
	if got.field("metadata", "labels", "first") == nil || got.field("metadata", "labels", "second") == nil || condition(got, "Established") != "True" {
		t.Errorf("after two patches: %s", got.raw)
	}
	if rounds != 3 { // of the first patch, and two of the second
		t.Errorf("validated %d times", rounds)
	}
	rounds = 0
	h.review("widgets.example.com", between("third"))
	if a := h.do("PUT", "a", path, got.body); a.code != 409 {
		t.Errorf("an update of an earlier revision: %d %s", a.code, a.raw)
	}
	h.must(200, h.do("DELETE", "a", path, nil))
	rounds = 0
	h.review("gears.example.com", func() {
		if rounds++; rounds == 1 {
			h.must(201, h.do("POST", "a", crds, crd("gears", "Gear", widgetSpec(nil))))
		}
	})
	gears := crd("gears", "Gear", widgetSpec(nil))
	if a := h.do("POST", "a", crds, gears); a.code != 409 || !strings.Contains(string(a.raw), "already exists") {
		t.Errorf("created twice: %d %s", a.code, a.raw)
	}
}

// TestNamesOfADryRun: a dry run is answered with the names that a CRD would have.
func TestNamesOfADryRun(t *testing.T) {
	h := newHub(t)
	h.must(201, h.do("POST", "a", crds, crd("widgets", "Widget", widgetSpec(nil))))
	a := h.must(201, h.do("POST", "a", crds+"?dryRun=All", crd("gears", "Gear", widgetSpec(nil))))
	if condition(a, "Established") != "True" || a.field("status", "acceptedNames", "kind") != "Gear" {
		t.Errorf("with free names: %s", a.raw)
	}
	a = h.must(201, h.do("POST", "a", crds+"?dryRun=All", crd("gears", "Widget", widgetSpec(nil))))
	if condition(a, "NamesAccepted") != "False" || condition(a, "Established") != "False" || a.field("status", "acceptedNames", "kind") != "" {
		t.Errorf("with names that are taken: %s", a.raw)
	}
	h.must(404, h.do("GET", "a", crds+"/gears.example.com/status", nil))
	rename := object{"spec": object{"names": object{"shortNames": []any{"wd", "new"}}}}
	a = h.must(200, h.do("PATCH", "a", crds+"/widgets.example.com?dryRun=All", rename, "Content-Type", merge))
	if names := a.field("status", "acceptedNames", "shortNames"); len(names.([]any)) != 2 {
		t.Errorf("with new names: %s", a.raw)
	}
}
