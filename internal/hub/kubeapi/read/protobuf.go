package read

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"orrery.dev/orrery/internal/hub/kinds/protobuf"
)

// protobufPrefix precedes every protobuf message of Kubernetes.
const protobufPrefix = "k8s\x00"

// The tags of the two fields of every list: its metadata and its items.
const (
	listMetaTag = 1<<3 | 2
	itemTag     = 2<<3 | 2
)

// transcoder converts stored JSON to protobuf; it is nil if objects have to be decoded.
func (r *reader) transcoder() *protobuf.Type {
	if r.display.metadataOnly || r.display.reports {
		return nil
	}
	return r.kind.Protobuf
}

// encodable returns the input that an encoder needs: protobuf if JSON can be converted to it,
// otherwise the decoded object.
func (o *object) encodable(f form) (runtime.Object, error) {
	if f == formProtobuf && o.reader.transcoder() != nil {
		raw, ok, err := o.transcoded(nil)
		if err != nil {
			return nil, err
		}
		if ok {
			return &runtime.Unknown{TypeMeta: o.reader.typeMeta(o.reader.kind.GVK.Kind), Raw: raw}, nil
		}
	}
	return o.decode()
}

func (r *reader) typeMeta(kind string) runtime.TypeMeta {
	return runtime.TypeMeta{APIVersion: r.shape.apiVersion, Kind: kind}
}

// transcoded appends the protobuf of the object; ok is false if it has to be decoded first.
func (o *object) transcoded(to []byte) (all []byte, ok bool, err error) {
	buffer := o.reader.server.buffers.get()
	defer o.reader.server.buffers.put(buffer)
	if err := o.writeJSON(buffer); err != nil {
		return to, false, err
	}
	all, ok = o.reader.transcoder().Append(to, buffer.Bytes())
	return all, ok, nil
}

// writeProtobuf writes the list as its encoder would. The length of a protobuf list precedes its
// items, so all items are converted first. They take a fraction of the memory of decoded items,
// and each chunk is released after it is written.
func (l *list) writeProtobuf(w *pieces) error {
	if size, limit := totalSize(l.Items), l.reader.server.config.DecodedListBytes; size > limit {
		return tooLarge(size, limit)
	}
	var made chunks
	defer made.drop()
	if err := l.transcode(&made); err != nil {
		return err
	}
	if err := writeAll(w, []byte(protobufPrefix)); err != nil {
		return err
	}
	whole := runtime.Unknown{TypeMeta: l.reader.typeMeta(l.reader.shape.listKind)}
	_, err := whole.MarshalToWriter(w, made.size, func(io.Writer) (int, error) { return made.size, made.writeTo(w) })
	if err != nil {
		return fmt.Errorf("write list: %w", err)
	}
	return nil
}

// transcode converts the list to a protobuf message.
func (l *list) transcode(made *chunks) error {
	m, err := l.ListMeta.Marshal()
	if err != nil {
		return fmt.Errorf("encode list: %w", err)
	}
	made.add(listMetaTag, m)
	buffer := l.reader.server.buffers.get()
	defer l.reader.server.buffers.put(buffer)
	for _, o := range l.Items {
		item, ok, err := o.transcoded(buffer.AvailableBuffer())
		if err == nil && !ok {
			item, err = o.marshalled()
		}
		if err != nil {
			return err
		}
		made.add(itemTag, item)
		buffer.Reset()
		buffer.Grow(len(item)) // the next one is often as large
	}
	return nil
}

// marshalled returns the protobuf of an object that has to be decoded.
func (o *object) marshalled() ([]byte, error) {
	decoded, err := o.decode()
	if err != nil {
		return nil, err
	}
	m, ok := decoded.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return nil, fmt.Errorf("encode %q: %T has no protobuf", o.row.Key, decoded)
	}
	encoded, err := m.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %q: %w", o.row.Key, err)
	}
	return encoded, nil
}

// chunks are the bytes of a list that is about to be written. Their memory comes from a pool, to
// spare the garbage collector.
type chunks struct {
	all  []*[]byte
	size int
}

var chunkPool = sync.Pool{New: func() any {
	chunk := make([]byte, 0, pieceBytes)
	return &chunk
}}

// add appends a field.
func (c *chunks) add(tag byte, value []byte) {
	needs := 1 + binary.MaxVarintLen64 + len(value)
	last := len(c.all) - 1
	if last < 0 || len(*c.all[last])+needs > cap(*c.all[last]) {
		next := chunkPool.Get().(*[]byte)
		if needs > cap(*next) {
			larger := make([]byte, 0, needs)
			next = &larger
		}
		c.all = append(c.all, next)
		last++
	}
	to := c.all[last]
	before := len(*to)
	*to = append(binary.AppendUvarint(append(*to, tag), uint64(len(value))), value...)
	c.size += len(*to) - before
}

// writeTo writes all chunks, and releases each.
func (c *chunks) writeTo(w *pieces) error {
	if err := w.flush(); err != nil {
		return err
	}
	for len(c.all) > 0 {
		if _, err := w.to.Write(*c.all[0]); err != nil {
			return err
		}
		c.letGo()
	}
	return nil
}

func (c *chunks) letGo() {
	if chunk := c.all[0]; cap(*chunk) == pieceBytes {
		*chunk = (*chunk)[:0]
		chunkPool.Put(chunk)
	}
	c.all[0] = nil
	c.all = c.all[1:]
}

// drop releases the chunks that have not been written.
func (c *chunks) drop() {
	for len(c.all) > 0 {
		c.letGo()
	}
}
