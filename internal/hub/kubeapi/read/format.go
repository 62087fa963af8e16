package read

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"

	"orrery.dev/orrery/internal/hub/kinds/protobuf"
	"orrery.dev/orrery/internal/hub/kubeapi/read/pieces"
)

// formats has the encodings that all requests of a server share. It is safe for concurrent use.
type formats struct {
	shapes  shapes
	partial *shape
	recent  recent
	buffers pieces.Buffers
	// fallbacks counts encodings that decoded an object because the encoder is unknown.
	fallbacks atomic.Int64
	// decodedBytes limits the stored bytes of the objects of a list that have to be decoded.
	decodedBytes int
}

// format has the encodings of the objects of one view. It belongs to one request.
type format struct {
	*formats
	view  *view
	shape *shape
}

// format returns the format of a view.
func (s *formats) format(v *view) *format {
	f := &format{formats: s, view: v, shape: s.partial}
	if !v.display.metadataOnly {
		f.shape = s.shapes.get(v.kind)
	}
	return f
}

// transcoder converts stored JSON to protobuf; it is nil if objects have to be decoded.
func (f *format) transcoder() *protobuf.Type {
	if f.view.display.metadataOnly || f.view.display.reports {
		return nil
	}
	return f.view.kind.Protobuf
}

// typeMeta returns the version and a kind of responses.
func (f *format) typeMeta(kind string) runtime.TypeMeta {
	return runtime.TypeMeta{APIVersion: f.shape.apiVersion, Kind: kind}
}
