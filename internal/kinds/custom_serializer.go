package kinds

import (
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
)

// newMetaScheme has what travels beside custom resources: options, errors,
// watch events.
func newMetaScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	s.AddUnversionedTypes(schema.GroupVersion{Version: "v1"},
		&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return s
}

// typer tells the kind of unstructured objects by what they say, and of options
// by their type.
type typer struct {
	parameters *runtime.Scheme
	objects    *crdserverscheme.UnstructuredObjectTyper
}

func newTyper(gv schema.GroupVersion) typer {
	parameters := runtime.NewScheme()
	parameters.AddUnversionedTypes(gv, &metav1.ListOptions{}, &metav1.GetOptions{}, &metav1.DeleteOptions{})
	return typer{parameters: parameters, objects: crdserverscheme.NewUnstructuredObjectTyper()}
}

func (t typer) ObjectKinds(o runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	if _, ok := o.(runtime.Unstructured); ok {
		return t.objects.ObjectKinds(o)
	}
	return t.parameters.ObjectKinds(o)
}

func (t typer) Recognizes(gvk schema.GroupVersionKind) bool {
	return t.parameters.Recognizes(gvk) || t.objects.Recognizes(gvk)
}

// creator makes an unstructured object of any kind.
type creator struct{}

func (creator) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	return o, nil
}

// defaulter sets the defaults of a CRD's schemas on objects of its kind.
type defaulter struct{ def *definition }

func (d defaulter) Default(o runtime.Object) {
	u, ok := o.(runtime.Unstructured)
	if !ok || o.GetObjectKind().GroupVersionKind().GroupKind() != d.def.groupKind() {
		d.def.compiler.scheme.Default(o)
		return
	}
	// Without schemas there is nothing to set; the coercer, which every request
	// passes first, has reported why.
	if schemas, err := d.def.artefacts().structural(); err == nil {
		structuraldefaulting.Default(u.UnstructuredContent(), schemas[o.GetObjectKind().GroupVersionKind().Version])
	}
}

// customSerializer negotiates between unstructured objects and what clients
// send and accept.
type customSerializer struct {
	def        *definition
	mediaTypes []runtime.SerializerInfo
}

func newCustomSerializer(d *definition, t typer) customSerializer {
	return customSerializer{def: d, mediaTypes: []runtime.SerializerInfo{
		jsonMediaType(t), yamlMediaType(t), protobufMediaType(t),
	}}
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

func (s customSerializer) SupportedMediaTypes() []runtime.SerializerInfo { return s.mediaTypes }

func (s customSerializer) EncoderForVersion(e runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	scheme := s.def.compiler.scheme
	return versioning.NewCodec(e, nil, s.def.convertor, scheme, scheme, scheme, gv, nil, "customSerializer")
}

func (s customSerializer) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	strict := false
	if j, ok := d.(*json.Serializer); ok {
		strict = j.IsStrict()
	}
	scheme := s.def.compiler.scheme
	coercing := coercingDecoder{delegate: d, coercer: coercer{def: s.def, report: strict}}
	return versioning.NewCodec(nil, coercing, runtime.UnsafeObjectConvertor(scheme), scheme, scheme,
		defaulter{s.def}, nil, gv, "customSerializer")
}
