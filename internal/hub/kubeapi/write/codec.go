package write

import (
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// boundedCodec refuses to encode objects that are too large for the log. The error names the
// limit, unlike that of etcd.
type boundedCodec struct {
	runtime.Codec
	limit int
}

func (c boundedCodec) Encode(obj runtime.Object, w io.Writer) error {
	return c.Codec.Encode(obj, &boundedWriter{w: w, limit: c.limit})
}

// boundedWriter fails after limit bytes.
type boundedWriter struct {
	w              io.Writer
	written, limit int
}

func (b *boundedWriter) Write(p []byte) (int, error) {
	b.written += len(p)
	if b.written > b.limit {
		return 0, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("object is larger than the limit of %d bytes as it is stored", b.limit))
	}
	return b.w.Write(p)
}
