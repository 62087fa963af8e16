package builtin_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/builtin"
	"orrery.dev/orrery/test/support/seeds"
)

// TestCreatedFields: what is found in the JSON of a created object is what a field manager finds,
// whatever an object of any kind has in its fields.
func TestCreatedFields(t *testing.T) {
	all, err := builtin.Kinds(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range all {
		if k.Created == nil {
			if k.StoredAsServed() && k.Hub == k.Storage {
				t.Errorf("%s has no fields", k.GVK)
			}
			continue
		}
		t.Run(k.GVK.String(), func(t *testing.T) {
			found, drawn := 0, 0
			seeds.Check(t, func(t *rapid.T) {
				drawn++
				if checkCreated(t, k) {
					found++
				}
			})
			// Of each kind two in three objects or more are found: of a hundred, half of that is seven deviations away.
			if found < drawn/3 {
				t.Errorf("%d of %d objects were left to the field manager", drawn-found, drawn)
			}
		})
	}
}

func checkCreated(t *rapid.T, k *kinds.Kind) bool {
	object := k.New()
	texts{mostlyPlain, anyText}.fill(t, reflect.ValueOf(object).Elem(), 0)
	m, err := meta.Accessor(object)
	if err != nil {
		t.Fatal(err)
	}
	m.SetManagedFields(nil)
	if status := reflect.ValueOf(object).Elem().FieldByName("Status"); k.HasStatus && status.IsValid() {
		status.SetZero() // a creator writes no status
	}
	object.GetObjectKind().SetGroupVersionKind(k.GVK)
	return sameAsManager(t, k, object)
}

// mostlyPlain draws names that are in sets of fields as they are; one in ten may be any text.
func mostlyPlain(t *rapid.T) string {
	if rapid.IntRange(0, 9).Draw(t, "strange") == 9 {
		return anyText(t)
	}
	return rapid.StringOfN(rapid.RuneFrom([]rune("abcdefghijklmnopqrstuvwxyz0123456789-./")), 1, 12, -1).Draw(t, "name")
}

type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// sameAsManager compares the owned fields, and reports whether there was anything to compare.
func sameAsManager(t fataler, k *kinds.Kind, object runtime.Object) bool {
	t.Helper()
	stored, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := k.Created.Append([]byte("before"), stored)
	if !ok {
		if string(got) != "before" {
			t.Fatalf("of %s: left to others, with %s", stored, got)
		}
		return false
	}
	managed, err := k.Scope("").FieldManager.Update(k.New(), object.DeepCopyObject(), "me")
	if err != nil {
		t.Fatal(err)
	}
	m, err := meta.Accessor(managed)
	if err != nil {
		t.Fatal(err)
	}
	want := []byte("before")
	for _, f := range m.GetManagedFields() {
		raw, err := json.Marshal(f.FieldsV1) // as it is stored
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, raw...)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("of %s:\n got %s\nwant %s", stored, got, want)
	}
	return true
}
