package write

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// changing changes the objects that clients send before field managers see them. Thus managed fields
// match the stored object.
type changing struct {
	runtime.NegotiatedSerializer
	change func(runtime.Object)
}

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (c changing) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return changingDecoder{c.NegotiatedSerializer.DecoderToVersion(d, gv), c.change}
}

type changingDecoder struct {
	runtime.Decoder
	change func(runtime.Object)
}

// Decode implements runtime.Decoder.
func (d changingDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, gvk, err := d.Decoder.Decode(data, defaults, into)
	d.change(obj)
	return obj, gvk, err
}
