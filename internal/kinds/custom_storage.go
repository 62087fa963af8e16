package kinds

import (
	"fmt"
	"io"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// storageCodec is schema-free: what is in the log comes back as it is, except
// that objects are written at the stored version of their CRD and read at the
// served one, whichever version they were written at.
type storageCodec struct{ served, storage schema.GroupVersion }

var _ runtime.Codec = storageCodec{}

// Identifier names the codec, so that encodings can be shared.
func (c storageCodec) Identifier() runtime.Identifier {
	return runtime.Identifier("custom-storage:" + c.storage.String())
}

// Encode writes an object as JSON; it does not change it.
func (c storageCodec) Encode(o runtime.Object, w io.Writer) error {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("encode %s: unexpected type %T", c.storage, o)
	}
	if want := c.storage.String(); u.GetAPIVersion() != want {
		object := make(map[string]any, len(u.Object)+1)
		maps.Copy(object, u.Object)
		object["apiVersion"] = want
		u = &unstructured.Unstructured{Object: object}
	}
	if err := unstructured.UnstructuredJSONScheme.Encode(u, w); err != nil {
		return fmt.Errorf("encode %s: %w", c.storage, err)
	}
	return nil
}

// Decode reads an object from JSON.
func (c storageCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	o, gvk, err := unstructured.UnstructuredJSONScheme.Decode(data, defaults, into)
	if err != nil {
		return nil, gvk, fmt.Errorf("decode %s: %w", c.served, err)
	}
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, gvk, fmt.Errorf("decode %s: unexpected type %T", c.served, o)
	}
	if gvk.Group == c.served.Group {
		u.SetAPIVersion(c.served.String())
	}
	return u, gvk, nil
}
