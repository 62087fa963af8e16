package custom

import (
	"fmt"

	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"

	"orrery.dev/orrery/internal/hub/kinds/schemacost"
)

// defaulter sets the defaults of a CRD's schemas on objects of its kind. It sets none on an object
// that would become too large by them: CheckDefaults refuses such a write, and a stored object is
// shown without them.
type defaulter struct{ def *Definition }

func (d defaulter) Default(o runtime.Object) {
	u, ok := o.(runtime.Unstructured)
	if !ok || o.GetObjectKind().GroupVersionKind().GroupKind() != d.def.groupKind() {
		d.def.scheme.Default(o)
		return
	}
	// Without schemas there is nothing to set; the coercer, which every request
	// passes first, has reported why.
	schemas, err := d.def.artefacts().structural()
	version := o.GetObjectKind().GroupVersionKind().Version
	if err == nil && !d.def.exceedsByDefaults(version, u.UnstructuredContent()) {
		structuraldefaulting.Default(u.UnstructuredContent(), schemas[version])
	}
}

// exceedsByDefaults reports whether the defaults of a version would add more to an object than an
// object may have.
func (d *Definition) exceedsByDefaults(version string, object map[string]any) bool {
	costs, err := d.artefacts().costs()
	return err == nil && costs[version] != nil && costs[version].Added(object, schemacost.MaxDefaults) > schemacost.MaxDefaults
}

// CheckDefaults returns the error of a write of an object that has no defaults since it would
// become too large by them; nil: it has them.
func (v version) CheckDefaults(o runtime.Object) error {
	u, ok := o.(*unstructured.Unstructured)
	if !ok || !v.def.exceedsByDefaults(u.GroupVersionKind().Version, u.Object) {
		return nil
	}
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the defaults of CRD %q would add more than %d bytes to the object: "+
		"give it fewer items that have defaults, or remove defaults from the CRD", v.def.name(), schemacost.MaxDefaults))
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
