package builtin

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/downsync"
)

// sample is an object as a user would write it.
type sample struct {
	name      string
	kind      *kinds.Kind
	yaml      []byte
	canonical []byte
}

// samples has a realistic object of every built-in kind.
func samples(t testing.TB) []sample {
	t.Helper()
	return readSamples(t, "testdata/objects/*.yaml")
}

func readSamples(t testing.TB, pattern string) []sample {
	t.Helper()
	byGVK := map[schema.GroupVersionKind]*kinds.Kind{}
	for _, k := range builtins(t) {
		byGVK[k.GVK] = k
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var all []sample
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range bytes.SplitSeq(b, []byte("\n---\n")) {
			asJSON, err := yaml.YAMLToJSON(doc)
			if err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			var head metav1.TypeMeta
			if err := json.Unmarshal(asJSON, &head); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			canonical := reencode(t, asJSON)
			k, ok := byGVK[head.GroupVersionKind()]
			if !ok {
				t.Fatalf("%s: no kind %s", f, head.GroupVersionKind())
			}
			all = append(all, sample{name: filepath.Base(f) + "/" + head.Kind, kind: k, yaml: doc, canonical: canonical})
		}
	}
	return all
}

func TestEveryKindHasASample(t *testing.T) {
	have := map[schema.GroupVersionKind]bool{}
	for _, s := range samples(t) {
		have[s.kind.GVK] = true
	}
	for _, k := range builtins(t) {
		if !have[k.GVK] {
			t.Errorf("no sample of %s", k.GVK)
		}
	}
}

// TestWhatTravelsIsWhatTheUserWrote sends a sample of each kind, in each
// encoding, the way a write takes: decode, let the server add its part, store.
func TestWhatTravelsIsWhatTheUserWrote(t *testing.T) {
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) {
			scope := s.kind.Scope("")
			typed := decodeAs(t, s.kind, runtime.ContentTypeYAML, s.yaml)
			for _, info := range scope.Serializer.SupportedMediaTypes() {
				sent, err := runtime.Encode(scope.Serializer.EncoderForVersion(info.Serializer, s.kind.GVK.GroupVersion()), typed.DeepCopyObject())
				if err != nil {
					t.Fatalf("%s: %v", info.MediaType, err)
				}
				got := decodeAs(t, s.kind, info.MediaType, sent)
				checkTravel(t, s, info.MediaType, got)
			}
			checkTravel(t, s, "as written", typed)
			checkTravel(t, s, "JSON as written", decodeAs(t, s.kind, runtime.ContentTypeJSON, s.canonical))
		})
	}
}

// checkTravel stores an object with the fields that a server adds, and compares the form that is sent
// to locations.
func checkTravel(t *testing.T, s sample, how string, obj runtime.Object) {
	t.Helper()
	addServersPart(t, obj)
	got, err := s.kind.Travel(encodeStored(t, s.kind, obj))
	if err != nil {
		t.Fatalf("%s: %v", how, err)
	}
	want := s.canonical
	if !s.kind.StoredAsServed() {
		back, err := runtime.Decode(s.kind.StorageCodec, got)
		if err != nil {
			t.Fatalf("%s: decode what travels: %v", how, err)
		}
		scope := s.kind.Scope("")
		served, err := scope.Convertor.ConvertToVersion(back, s.kind.GVK.GroupVersion())
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		if got, err = json.Marshal(served); err != nil {
			t.Fatal(err)
		}
		sortedSame(t, how, s, got)
		return
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s travels as\n%s\nwant\n%s", how, got, want)
	}
	if again, err := s.kind.Travel(got); err != nil || !bytes.Equal(again, got) {
		t.Errorf("%s: sent on, it is\n%s (%v), want\n%s", how, again, err, got)
	}
}

// sortedSame compares the served form of a converted object, noise apart.
func sortedSame(t *testing.T, how string, s sample, served []byte) {
	t.Helper()
	servedObject, err := s.kind.Scope("").Creater.New(s.kind.GVK)
	if err != nil {
		t.Fatal(err)
	}
	got, err := downsync.Types{}.Filter(reflect.TypeOf(servedObject).Elem(), s.kind.Resource, s.kind.HasStatus).Travel(served)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, s.canonical) {
		t.Errorf("%s comes back as\n%s\nwant\n%s", how, got, s.canonical)
	}
}

// What an upper hub and clients write for Orrery does not travel to a cluster.
var (
	controlAnnotations = []string{
		"kubectl.kubernetes.io/last-applied-configuration",
		v1alpha1.AssignedLocationsAnnotation, v1alpha1.ReturnStatusAnnotation, v1alpha1.SpaceAnnotation, v1alpha1.ExpandAnnotation,
		v1alpha1.SourceKindAnnotation, v1alpha1.SourceNamespaceAnnotation, v1alpha1.SourceNameAnnotation, v1alpha1.SourceUIDAnnotation,
		v1alpha1.OnRemoveAnnotation, v1alpha1.LogAnnotation, v1alpha1.TakenFromAnnotation,
	}
	markLabels = []string{v1alpha1.LocationLabel, v1alpha1.SpaceLabel}
)

func addServersPart(t testing.TB, obj runtime.Object) {
	t.Helper()
	m, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	now := metav1.Unix(1_800_000_000, 0)
	seconds := int64(30)
	m.SetUID(types.UID("11111111-2222-3333-4444-555555555555"))
	m.SetResourceVersion("17")
	m.SetGeneration(4)
	m.SetCreationTimestamp(now)
	m.SetDeletionTimestamp(&now)
	m.SetDeletionGracePeriodSeconds(&seconds)
	m.SetGenerateName("x-")
	m.SetFinalizers([]string{"example.com/f"})
	m.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}})
	m.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:a":{}}`)}})
	annotations := map[string]string{}
	maps.Copy(annotations, m.GetAnnotations())
	for _, name := range controlAnnotations {
		annotations[name] = "x"
	}
	m.SetAnnotations(annotations)
	labels := map[string]string{}
	maps.Copy(labels, m.GetLabels())
	for _, name := range markLabels {
		labels[name] = "x"
	}
	m.SetLabels(labels)
}

func decodeAs(t testing.TB, k *kinds.Kind, mediaType string, body []byte) runtime.Object {
	t.Helper()
	scope := k.Scope("")
	info, ok := runtime.SerializerInfoForMediaType(scope.Serializer.SupportedMediaTypes(), mediaType)
	if !ok {
		t.Fatalf("no serializer for %s", mediaType)
	}
	gvk := k.GVK
	obj, _, err := scope.Serializer.DecoderToVersion(info.StrictSerializer, k.Hub).Decode(body, &gvk, k.New())
	if err != nil {
		t.Fatalf("decode %s as %s: %v", k.GVK, mediaType, err)
	}
	return obj
}

func encodeStored(t testing.TB, k *kinds.Kind, obj runtime.Object) []byte {
	t.Helper()
	stored, err := runtime.Encode(k.StorageCodec, obj)
	if err != nil {
		t.Fatalf("store %s: %v", k.GVK, err)
	}
	return stored
}

// reencode makes canonical JSON the plain way, through Go maps.
func reencode(t require, data []byte) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// require is what tests and property tests have in common.
type require interface{ Fatal(...any) }

func BenchmarkTravel(b *testing.B) {
	var stored []byte
	var kind *kinds.Kind
	for _, s := range samples(b) {
		if s.kind.GVK.Kind != "Pod" {
			continue
		}
		obj := decodeAs(b, s.kind, "application/yaml", s.yaml)
		addServersPart(b, obj)
		kind = s.kind
		stored = encodeStored(b, kind, obj)
	}
	b.SetBytes(int64(len(stored)))
	for b.Loop() {
		if _, err := kind.Travel(stored); err != nil {
			b.Fatal(err)
		}
	}
}
