package custom

import (
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
)

// defaulter sets the defaults of a CRD's schemas on objects of its kind.
type defaulter struct{ def *Definition }

func (d defaulter) Default(o runtime.Object) {
	u, ok := o.(runtime.Unstructured)
	if !ok || o.GetObjectKind().GroupVersionKind().GroupKind() != d.def.groupKind() {
		d.def.scheme.Default(o)
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
type customSerializer struct{ def *Definition }

func (s customSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	return s.def.mediaTypes
}

func (s customSerializer) EncoderForVersion(e runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	scheme := s.def.scheme
	return versioning.NewCodec(e, nil, s.def.convertor, scheme, scheme, scheme, gv, nil, "customSerializer")
}

func (s customSerializer) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	strict := false
	if j, ok := d.(*json.Serializer); ok {
		strict = j.IsStrict()
	}
	scheme := s.def.scheme
	coercing := coercingDecoder{delegate: d, coercer: coercer{def: s.def, report: strict}}
	return versioning.NewCodec(nil, coercing, runtime.UnsafeObjectConvertor(scheme), scheme, scheme,
		defaulter(s), nil, gv, "customSerializer")
}
