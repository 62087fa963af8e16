package custom

import (
	"fmt"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	schemaobjectmeta "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// coercer changes custom resources as decoding into Go structs changes built-in ones: it drops
// fields that are not in the schema, drops nulls that are not nullable, and checks metadata.
type coercer struct {
	def *Definition
	// report requests the paths of dropped fields.
	report bool
	// stored reports that the object is already stored, perhaps by another schema: malformed
	// metadata is then dropped instead of refused.
	stored bool
}

// apply coerces an object in place. Objects of other kinds (options of
// requests, too, pass here) keep all but malformed metadata.
func (c coercer) apply(u *unstructured.Unstructured) (unknown []string, err error) {
	kind, hasKind, err := unstructured.NestedString(u.Object, "kind")
	if err != nil {
		return nil, err
	}
	apiVersion, hasVersion, err := unstructured.NestedString(u.Object, "apiVersion")
	if err != nil {
		return nil, err
	}
	objectMeta, hasMeta, unknown, err := schemaobjectmeta.GetObjectMetaWithOptions(u.Object,
		schemaobjectmeta.ObjectMetaOptions{DropMalformedFields: c.stored, ReturnUnknownFieldPaths: c.report})
	if err != nil {
		return nil, err
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err
	}
	if gv.Group == c.def.group && kind == c.def.names.Kind {
		paths, err := c.prune(u, gv.Version)
		if err != nil {
			return nil, err
		}
		unknown = append(unknown, paths...)
	}
	// The schema need not mention these; they are put back as they were.
	if hasKind {
		u.SetKind(kind)
	}
	if hasVersion {
		u.SetAPIVersion(apiVersion)
	}
	if hasMeta {
		if err := setObjectMeta(u, objectMeta); err != nil {
			return nil, err
		}
	}
	return unknown, nil
}

func setObjectMeta(u *unstructured.Unstructured, m *metav1.ObjectMeta) error {
	if err := schemaobjectmeta.SetObjectMeta(u.Object, m); err != nil {
		return fmt.Errorf("set metadata: %w", err)
	}
	return nil
}

func (c coercer) prune(u *unstructured.Unstructured, version string) (unknown []string, err error) {
	schemas, err := c.def.artefacts().structural()
	if err != nil {
		return nil, err
	}
	if !c.def.preserve {
		unknown = structuralpruning.PruneWithOptions(u.Object, schemas[version], true,
			structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: c.report})
		structuraldefaulting.PruneNonNullableNullsWithoutDefaults(u.Object, schemas[version])
	}
	fieldErr, paths := schemaobjectmeta.CoerceWithOptions(nil, u.Object, schemas[version], false,
		schemaobjectmeta.CoerceOptions{DropInvalidFields: c.stored, ReturnUnknownFieldPaths: c.report})
	if fieldErr != nil {
		return nil, fieldErr
	}
	return append(unknown, paths...), nil
}

// coercingDecoder coerces what another decoder has read. Of a strict one it
// keeps the complaints and adds those about unknown fields; the object is
// returned with them, so that the caller may warn and go on.
type coercingDecoder struct {
	delegate runtime.Decoder
	coercer  coercer
}

func (d coercingDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	var complaints []error
	o, gvk, err := d.delegate.Decode(data, defaults, into)
	if err != nil {
		strict, ok := runtime.AsStrictDecodingError(err)
		if !ok || o == nil {
			return nil, gvk, err
		}
		complaints = strict.Errors()
	}
	var unknown []string
	if u, ok := o.(*unstructured.Unstructured); ok {
		if unknown, err = d.coercer.apply(u); err != nil {
			return nil, gvk, err
		}
	}
	if !d.coercer.report {
		return o, gvk, nil
	}
	for _, path := range unknown {
		complaints = append(complaints, fmt.Errorf("unknown field %q", path))
	}
	if len(complaints) > 0 {
		return o, gvk, runtime.NewStrictDecodingError(complaints)
	}
	return o, gvk, nil
}
