package builtin

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"orrery.dev/orrery/internal/hub/kinds"
)

// TestListsAreServed encodes a list of each sample as clients get it.
func TestListsAreServed(t *testing.T) {
	for _, s := range samples(t) {
		serializer := s.kind.Scope("").Serializer
		list := s.kind.NewList()
		if err := meta.SetList(list, []runtime.Object{decodeAs(t, s.kind, runtime.ContentTypeYAML, s.yaml)}); err != nil {
			t.Fatal(err)
		}
		for _, info := range serializer.SupportedMediaTypes() {
			sent, err := runtime.Encode(serializer.EncoderForVersion(info.Serializer, s.kind.GVK.GroupVersion()), list.DeepCopyObject())
			if err != nil {
				t.Errorf("%s as %s: %v", s.name, info.MediaType, err)
				continue
			}
			got, gvk, err := serializer.DecoderToVersion(info.Serializer, s.kind.GVK.GroupVersion()).Decode(sent, nil, nil)
			if err != nil {
				t.Errorf("%s as %s: %v", s.name, info.MediaType, err)
				continue
			}
			if *gvk != s.kind.GVK.GroupVersion().WithKind(s.kind.ListKind) || meta.LenList(got) != 1 {
				t.Errorf("%s as %s is served as %s with %d items", s.name, info.MediaType, gvk, meta.LenList(got))
			}
		}
	}
}

func TestStrictDecodingRefusesUnknownFields(t *testing.T) {
	for _, k := range builtins(t) {
		serializer := k.Scope("").Serializer
		info, _ := runtime.SerializerInfoForMediaType(serializer.SupportedMediaTypes(), runtime.ContentTypeJSON)
		gvk := k.GVK
		body := []byte(`{"apiVersion":"` + gvk.GroupVersion().String() + `","kind":"` + gvk.Kind + `","metadata":{"name":"a"},"nope":1}`)
		if _, _, err := serializer.DecoderToVersion(info.StrictSerializer, k.Hub).Decode(body, &gvk, k.New()); !runtime.IsStrictDecodingError(err) {
			t.Errorf("%s: strict decoding of an unknown field: %v", k.GVK, err)
		}
		if _, _, err := serializer.DecoderToVersion(info.Serializer, k.Hub).Decode(body, &gvk, k.New()); err != nil {
			t.Errorf("%s: decoding of an unknown field: %v", k.GVK, err)
		}
	}
}

// TestStrategicMergeIsKnown applies an empty strategic merge patch, which looks
// up how each field of the type merges.
func TestStrategicMergeIsKnown(t *testing.T) {
	for _, s := range samples(t) {
		if s.kind.GVK.Kind == "ControllerRevision" {
			continue // its data is raw, which strategic merge refuses, in Kubernetes too
		}
		served, err := s.kind.Scope("").Creater.New(s.kind.GVK)
		if err != nil {
			t.Fatal(err)
		}
		patched, err := strategicpatch.StrategicMergePatch(s.canonical, s.canonical, served)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if got := string(reencode(t, patched)); got != string(s.canonical) {
			t.Errorf("%s: patched with itself:\n%s\nwant\n%s", s.name, got, s.canonical)
		}
	}
}

func TestScaleIsManaged(t *testing.T) {
	for _, k := range builtins(t) {
		scope := k.Scope(kinds.ScaleSubresource)
		if scope == nil {
			continue
		}
		live, scaled := &autoscalingv1.Scale{}, &autoscalingv1.Scale{}
		live.Name, scaled.Name = "a", "a"
		scaled.Spec.Replicas = 3
		got, err := scope.FieldManager.Update(live, scaled, "kubectl")
		if err != nil {
			t.Errorf("%s: %v", k.GVK, err)
			continue
		}
		m := got.(*autoscalingv1.Scale).ManagedFields
		if len(m) != 1 || m[0].Subresource != kinds.ScaleSubresource || m[0].APIVersion != "autoscaling/v1" {
			t.Errorf("%s: scale is managed as %v", k.GVK, m)
		}
	}
}
