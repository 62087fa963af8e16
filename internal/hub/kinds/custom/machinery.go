package custom

import (
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/columns"
)

// machinery contains the encoders and schemes that all custom kinds share.
type machinery struct {
	// scheme contains the types that are sent besides custom resources.
	scheme     *runtime.Scheme
	typer      typer
	mediaTypes []runtime.SerializerInfo
	parameters runtime.ParameterCodec
	// scales is for scale subresources, which have a Go type.
	scales     runtime.NegotiatedSerializer
	scaleTable rest.TableConvertor
}

func newMachinery() (machinery, error) {
	scales := runtime.NewScheme()
	if err := autoscalingv1.AddToScheme(scales); err != nil {
		return machinery{}, fmt.Errorf("register scale: %w", err)
	}
	m := machinery{
		scheme: kinds.NewMetaScheme(),
		scales: serializer.NewCodecFactory(scales,
			serializer.WithStreamingCollectionEncodingToJSON(), serializer.WithStreamingCollectionEncodingToProtobuf()),
		scaleTable: columns.New(time.Now).Scale(),
	}
	m.typer = newTyper()
	m.mediaTypes = []runtime.SerializerInfo{jsonMediaType(m.typer), yamlMediaType(m.typer), protobufMediaType(m.typer)}
	m.parameters = runtime.NewParameterCodec(m.typer.options)
	return m, nil
}

// typer returns the kind of unstructured objects by their content, and the kind of options by their
// Go type.
type typer struct {
	options *runtime.Scheme
	objects *crdserverscheme.UnstructuredObjectTyper
}

func newTyper() typer {
	options := runtime.NewScheme()
	options.AddUnversionedTypes(schema.GroupVersion{Version: "v1"}, &metav1.ListOptions{}, &metav1.GetOptions{}, &metav1.DeleteOptions{})
	return typer{options: options, objects: crdserverscheme.NewUnstructuredObjectTyper()}
}

func (t typer) ObjectKinds(o runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	if _, ok := o.(runtime.Unstructured); ok {
		return t.objects.ObjectKinds(o)
	}
	return t.options.ObjectKinds(o)
}

func (t typer) Recognizes(gvk schema.GroupVersionKind) bool {
	return t.options.Recognizes(gvk) || t.objects.Recognizes(gvk)
}

// creator makes an unstructured object of any kind.
type creator struct{}

func (creator) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	return o, nil
}

func jsonMediaType(t typer) runtime.SerializerInfo {
	with := func(o json.SerializerOptions) runtime.Serializer {
		return json.NewSerializerWithOptions(json.DefaultMetaFactory, creator{}, t, o)
	}
	return runtime.SerializerInfo{
		MediaType:        runtime.ContentTypeJSON,
		MediaTypeType:    "application",
		MediaTypeSubType: "json",
		EncodesAsText:    true,
		Serializer:       with(json.SerializerOptions{StreamingCollectionsEncoding: true}),
		PrettySerializer: with(json.SerializerOptions{Pretty: true}),
		StrictSerializer: with(json.SerializerOptions{Strict: true, StreamingCollectionsEncoding: true}),
		StreamSerializer: &runtime.StreamSerializerInfo{
			EncodesAsText: true,
			Serializer:    with(json.SerializerOptions{}),
			Framer:        json.Framer,
		},
	}
}

func yamlMediaType(t typer) runtime.SerializerInfo {
	with := func(o json.SerializerOptions) runtime.Serializer {
		return json.NewSerializerWithOptions(json.DefaultMetaFactory, creator{}, t, o)
	}
	return runtime.SerializerInfo{
		MediaType:        runtime.ContentTypeYAML,
		MediaTypeType:    "application",
		MediaTypeSubType: "yaml",
		EncodesAsText:    true,
		Serializer:       with(json.SerializerOptions{Yaml: true}),
		StrictSerializer: with(json.SerializerOptions{Yaml: true, Strict: true}),
	}
}

// protobufMediaType is for what is returned beside custom resources, such as
// errors and metadata; objects themselves are never protobuf.
func protobufMediaType(t typer) runtime.SerializerInfo {
	return runtime.SerializerInfo{
		MediaType:        runtime.ContentTypeProtobuf,
		MediaTypeType:    "application",
		MediaTypeSubType: "vnd.kubernetes.protobuf",
		Serializer:       protobuf.NewSerializerWithOptions(creator{}, t, protobuf.SerializerOptions{StreamingCollectionsEncoding: true}),
		StreamSerializer: &runtime.StreamSerializerInfo{
			Serializer: protobuf.NewRawSerializer(creator{}, t),
			Framer:     protobuf.LengthDelimitedFramer,
		},
	}
}
