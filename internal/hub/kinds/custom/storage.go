package custom

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// storageCodec encodes objects in the stored version of their CRD, and decodes objects of any version
// into a served one. It applies the current schema, even if an older one was in force when the object
// was written: it drops unknown fields and adds defaults, as Kubernetes does.
type storageCodec struct {
	def    *Definition
	served string
}

var _ runtime.Codec = storageCodec{}

// Identifier names the codec, so that encodings can be shared.
func (c storageCodec) Identifier() runtime.Identifier {
	return runtime.Identifier("custom-storage:" + c.def.hash)
}

// Encode writes an object as JSON; it does not change it.
func (c storageCodec) Encode(o runtime.Object, w io.Writer) error {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("encode %s: unexpected type %T", c.def.gv(c.def.storage), o)
	}
	if u.GetAPIVersion() != c.def.gv(c.def.storage).String() {
		u = u.DeepCopy()
		if err := c.convert(u, c.def.storage); err != nil {
			return err
		}
	}
	if err := unstructured.UnstructuredJSONScheme.Encode(u, w); err != nil {
		return fmt.Errorf("encode %s: %w", c.def.gv(c.def.storage), err)
	}
	return nil
}

// Decode reads an object from JSON.
func (c storageCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	u, gvk, err := decodeUnstructured(data, defaults, into)
	if err != nil {
		return nil, gvk, fmt.Errorf("decode %s: %w", c.def.gv(c.served), err)
	}
	if gvk.Group != c.def.group {
		return u, gvk, nil
	}
	// A version that is gone has no schema; of its objects, the one that is
	// served keeps what it knows.
	if c.def.hasVersion(gvk.Version) {
		if _, err := c.coercer().apply(u); err != nil {
			return nil, gvk, fmt.Errorf("decode %s: %w", c.def.gv(c.served), err)
		}
		defaulter{c.def}.Default(u)
	}
	if gvk.Version == c.served {
		return u, gvk, nil
	}
	if err := c.convert(u, c.served); err != nil {
		return nil, gvk, err
	}
	if !c.def.hasVersion(gvk.Version) {
		defaulter{c.def}.Default(u)
	}
	return u, gvk, nil
}

// convert makes an object one of another version, in place.
func (c storageCodec) convert(u *unstructured.Unstructured, version string) error {
	u.SetAPIVersion(c.def.gv(version).String())
	if _, err := c.coercer().apply(u); err != nil {
		return fmt.Errorf("convert to %s: %w", c.def.gv(version), err)
	}
	return nil
}

func (c storageCodec) coercer() coercer { return coercer{def: c.def, stored: true} }

func decodeUnstructured(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (*unstructured.Unstructured, *schema.GroupVersionKind, error) {
	o, gvk, err := unstructured.UnstructuredJSONScheme.Decode(data, defaults, into)
	if err != nil {
		return nil, gvk, err
	}
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, gvk, fmt.Errorf("unexpected type %T", o)
	}
	return u, gvk, nil
}
