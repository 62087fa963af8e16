package read

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// writePretty writes the list as json.MarshalIndent would, with one item in memory at a time.
func (l *list) writePretty(encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	others, err := l.converted(encode)
	if err != nil {
		return err
	}
	head, err := l.head()
	if err != nil {
		return err
	}
	buffer := l.reader.server.buffers.get()
	defer l.reader.server.buffers.put(buffer)
	if err := json.Indent(buffer, head, "", prettyIndent); err != nil {
		return fmt.Errorf("indent list: %w", err)
	}
	buffer.Truncate(buffer.Len() - len("\n}"))
	buffer.WriteString(",\n" + prettyIndent + `"items": [`)
	if err := writeAll(w, buffer.Bytes()[:1], buffer.Bytes()[1:]); err != nil {
		return err
	}
	for i, o := range l.Items {
		buffer.Reset()
		if i > 0 {
			buffer.WriteByte(',')
		}
		buffer.WriteString("\n" + prettyIndent + prettyIndent)
		if err := l.indentItem(o, others[o], buffer); err != nil {
			return err
		}
		if err := writeAll(w, buffer.Bytes()); err != nil {
			return err
		}
	}
	end := "]\n}"
	if len(l.Items) > 0 {
		end = "\n" + prettyIndent + end
	}
	return writeAll(w, []byte(end))
}

func (l *list) indentItem(o *object, converted []byte, to *bytes.Buffer) error {
	plain := l.reader.server.buffers.get()
	defer l.reader.server.buffers.put(plain)
	if err := l.writeItem(o, converted, plain); err != nil {
		return err
	}
	if err := json.Indent(to, plain.Bytes(), prettyIndent+prettyIndent, prettyIndent); err != nil {
		return fmt.Errorf("indent %q: %w", o.row.Key, err)
	}
	return nil
}

// buffers is a pool of buffers for single values.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() *bytes.Buffer {
	if buffer, ok := b.pool.Get().(*bytes.Buffer); ok {
		return buffer
	}
	return &bytes.Buffer{}
}

// put returns a buffer to the pool, unless it has become too large to keep.
func (b *buffers) put(buffer *bytes.Buffer) {
	const keep = 256 << 10
	if buffer.Cap() <= keep {
		buffer.Reset()
		b.pool.Put(buffer)
	}
}
