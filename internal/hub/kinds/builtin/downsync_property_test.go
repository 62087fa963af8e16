package builtin

import (
	"encoding/json"
	"math/rand"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	"sigs.k8s.io/randfill"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/test/support/seeds"
)

// TestTravelKeepsMeaning checks for generated objects that a location which decodes the sent form gets
// the same object, except for the omitted fields, and that the result has the same sent form again.
func TestTravelKeepsMeaning(t *testing.T) {
	all := builtins(t)
	seeds.Check(t, func(t *rapid.T) {
		k := all[rapid.IntRange(0, len(all)-1).Draw(t, "kind")]
		obj := k.New()
		filler(rapid.Int64().Draw(t, "seed")).Fill(obj)
		stored, err := runtime.Encode(k.StorageCodec, obj)
		if err != nil {
			t.Fatal(err)
		}
		travels, err := k.Travel(stored)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := k.Travel(travels); err != nil || string(again) != string(travels) {
			t.Fatalf("travels as\n%s\nand on as\n%s (%v)", travels, again, err)
		}
		got, want := atLocation(t, k, travels), atLocation(t, k, stored)
		if got != want {
			t.Fatalf("a location reads\n%s\nof what travels, want\n%s", got, want)
		}
	})
}

// atLocation is a value as its Go type holds it, without what is not to travel.
func atLocation(t *rapid.T, k *kinds.Kind, value []byte) string {
	obj, err := runtime.Decode(k.StorageCodec, value)
	if err != nil {
		t.Fatal(err)
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	m.SetUID("")
	m.SetResourceVersion("")
	m.SetGeneration(0)
	m.SetCreationTimestamp(metav1.Time{})
	m.SetDeletionTimestamp(nil)
	m.SetDeletionGracePeriodSeconds(nil)
	m.SetGenerateName("")
	m.SetFinalizers(nil)
	m.SetOwnerReferences(nil)
	m.SetManagedFields(nil)
	m.SetSelfLink("")
	if ns, ok := obj.(*corev1.Namespace); ok {
		ns.Spec.Finalizers = nil
	}
	b, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(b, &object); err != nil {
		t.Fatal(err)
	}
	if k.HasStatus {
		delete(object, "status")
	}
	if b, err = json.Marshal(object); err != nil {
		t.Fatal(err)
	}
	return string(reencode(t, b))
}

// filler fills Go types at random with what survives their JSON.
func filler(seed int64) *randfill.Filler {
	return randfill.New().RandSource(rand.NewSource(seed)).NilChance(.4).NumElements(1, 2).MaxDepth(14).Funcs(
		func(v *metav1.TypeMeta, _ randfill.Continue) {},
		func(v *resource.Quantity, c randfill.Continue) {
			*v = *resource.NewMilliQuantity(c.Int63n(5)*500, resource.DecimalSI)
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			*v = intstr.FromInt32(c.Int31n(3))
			if c.Bool() {
				*v = intstr.FromString("10%")
			}
		},
		func(v *metav1.Time, c randfill.Continue) { *v = metav1.Unix(c.Int63n(2_000_000_000), 0) },
		func(v *metav1.MicroTime, c randfill.Continue) {
			*v = metav1.MicroTime(metav1.Unix(c.Int63n(2_000_000_000), 7000))
		},
		func(v *metav1.FieldsV1, _ randfill.Continue) { v.SetRawString(`{"f:a":{}}`) },
		func(v *runtime.RawExtension, c randfill.Continue) { v.Raw = []byte(`{"b":1,"a":{},"c":null}`) },
		func(v *apiextensionsv1.JSON, _ randfill.Continue) {
			v.Raw = []byte(`{"b":9007199254740993,"a":[null,{}]}`)
		},
		func(v *apiextensionsv1.JSONSchemaProps, c randfill.Continue) {
			v.Type, v.MaxLength = "string", new(int64)
			if c.Bool() {
				v.Properties = map[string]apiextensionsv1.JSONSchemaProps{"a": {Type: "object"}}
			}
		},
	)
}
