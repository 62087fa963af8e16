package read

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/hub/kubeapi/read/pieces"
)

// list is a list of objects of a view. JSON is assembled while it is written, protobuf is
// converted from JSON, and only other forms decode the list.
type list struct {
	metav1.ListMeta
	// Items must have this name: the libraries recognize a list by it.
	Items  []*object
	format *format
}

var (
	_ runtime.Object          = &list{}
	_ runtime.CacheableObject = &list{}
	_ metav1.ListInterface    = &list{}
)

// GetObjectKind returns a kind that ignores changes.
func (l *list) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the decoded list, which callers may change.
func (l *list) DeepCopyObject() runtime.Object { return l.GetObject() }

// GetObject returns the decoded list, or the list itself if it can't be decoded.
func (l *list) GetObject() runtime.Object {
	decoded, err := l.decode()
	if err != nil {
		return l
	}
	return decoded
}

// CacheEncode writes the list item by item if it can, see object.CacheEncode.
func (l *list) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	buffer := l.format.buffers.Get()
	defer l.format.buffers.Put(buffer)
	p := pieces.New(w, buffer)
	if err := l.encode(id, encode, p); err != nil {
		return err
	}
	return p.Flush()
}

func (l *list) encode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w *pieces.Writer) error {
	switch e := l.format.shape.catalog[id]; e.form {
	case formJSON:
		return l.writeJSON(encode, w)
	case formPretty:
		return l.writePretty(encode, w)
	case formProtobuf:
		if l.format.transcoder() != nil {
			return l.writeProtobuf(w)
		}
	case formUnknown:
		l.format.fallbacks.Add(1)
	}
	decoded, err := l.decode()
	if err != nil {
		return err
	}
	return encode(decoded, w)
}

// decode returns a list of decoded objects. It fails if that would take too much memory; clients
// then have to request pages or JSON.
func (l *list) decode() (runtime.Object, error) {
	if size, limit := totalSize(l.Items), l.format.decodedBytes; size > limit {
		return nil, tooLarge(size, limit)
	}
	decoded := l.format.view.newList()
	items := make([]runtime.Object, 0, len(l.Items))
	for _, o := range l.Items {
		item, err := o.decode()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	if err := meta.SetList(decoded, items); err != nil {
		return nil, fmt.Errorf("make a list: %w", err)
	}
	m, err := meta.ListAccessor(decoded)
	if err != nil {
		return nil, fmt.Errorf("make a list: %w", err)
	}
	m.SetResourceVersion(l.ResourceVersion)
	m.SetContinue(l.Continue)
	m.SetRemainingItemCount(l.RemainingItemCount)
	return decoded, nil
}

// head returns the JSON of the list up to its items.
func (l *list) head() ([]byte, error) {
	head, err := json.Marshal(struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
	}{metav1.TypeMeta{Kind: l.format.shape.listKind, APIVersion: l.format.shape.apiVersion}, l.ListMeta})
	if err != nil {
		return nil, fmt.Errorf("encode list: %w", err)
	}
	return head, nil
}

// writeJSON writes the list item by item. Its first Write is the opening brace
// alone, by which the response writer recognizes a stream that it may compress.
func (l *list) writeJSON(encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	others, err := l.converted(encode)
	if err != nil {
		return err
	}
	head, err := l.head()
	if err != nil {
		return err
	}
	if err := pieces.WriteAll(w, head[:1], head[1:len(head)-1], []byte(`,"items":[`)); err != nil {
		return err
	}
	for i, o := range l.Items {
		if i > 0 {
			if err := pieces.WriteAll(w, []byte(",")); err != nil {
				return err
			}
		}
		if err := l.writeItem(o, others[o], w); err != nil {
			return err
		}
	}
	return pieces.WriteAll(w, []byte("]}\n"))
}

// writeItem writes the converted item if there is one, otherwise the bytes of the object.
func (l *list) writeItem(o *object, converted []byte, w io.Writer) error {
	if converted != nil {
		return pieces.WriteAll(w, converted)
	}
	return o.writeWithout(l.format.shape.itemHead, w)
}

// converted returns the items whose stored version is not the served one. They are converted
// before the first byte of the list is written: as in Kubernetes, an item that can't be converted
// fails the list instead of truncating it.
func (l *list) converted(encode func(runtime.Object, io.Writer) error) (map[*object][]byte, error) {
	var others map[*object][]byte
	size := 0
	for _, o := range l.Items {
		if o.asServed() {
			// Served bytes can only lack metadata.
			if _, err := stored(o.row.Entry); err != nil && !l.format.view.display.reports {
				return nil, err
			}
			continue
		}
		decoded, err := o.decode()
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := encode(decoded, &b); err != nil {
			return nil, fmt.Errorf("encode %q: %w", o.row.Key, err)
		}
		item := bytes.TrimSpace(b.Bytes())
		if head := l.format.shape.itemHead; len(head) > 0 && bytes.HasPrefix(item, head) {
			item = item[len(head)-1:]
			item[0] = '{'
		}
		if size += len(item); size > l.format.decodedBytes {
			return nil, tooLarge(totalSize(l.Items), l.format.decodedBytes)
		}
		if others == nil {
			others = map[*object][]byte{}
		}
		others[o] = item
	}
	return others, nil
}

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
	buffer := l.format.buffers.Get()
	defer l.format.buffers.Put(buffer)
	if err := json.Indent(buffer, head, "", prettyIndent); err != nil {
		return fmt.Errorf("indent list: %w", err)
	}
	buffer.Truncate(buffer.Len() - len("\n}"))
	buffer.WriteString(",\n" + prettyIndent + `"items": [`)
	if err := pieces.WriteAll(w, buffer.Bytes()[:1], buffer.Bytes()[1:]); err != nil {
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
		if err := pieces.WriteAll(w, buffer.Bytes()); err != nil {
			return err
		}
	}
	end := "]\n}"
	if len(l.Items) > 0 {
		end = "\n" + prettyIndent + end
	}
	return pieces.WriteAll(w, []byte(end))
}

func (l *list) indentItem(o *object, converted []byte, to *bytes.Buffer) error {
	plain := l.format.buffers.Get()
	defer l.format.buffers.Put(plain)
	if err := l.writeItem(o, converted, plain); err != nil {
		return err
	}
	if err := json.Indent(to, plain.Bytes(), prettyIndent+prettyIndent, prettyIndent); err != nil {
		return fmt.Errorf("indent %q: %w", o.row.Key, err)
	}
	return nil
}

// protobufPrefix precedes every protobuf message of Kubernetes.
const protobufPrefix = "k8s\x00"

// The tags of the two fields of every list: its metadata and its items.
const (
	listMetaTag = 1<<3 | 2
	itemTag     = 2<<3 | 2
)

// writeProtobuf writes the list as its encoder would. The length of a protobuf list precedes its
// items, so all items are converted first. They take a fraction of the memory of decoded items,
// and each chunk is released after it is written.
func (l *list) writeProtobuf(w *pieces.Writer) error {
	if size, limit := totalSize(l.Items), l.format.decodedBytes; size > limit {
		return tooLarge(size, limit)
	}
	var made chunks
	defer made.drop()
	if err := l.transcode(&made); err != nil {
		return err
	}
	if err := pieces.WriteAll(w, []byte(protobufPrefix)); err != nil {
		return err
	}
	whole := runtime.Unknown{TypeMeta: l.format.typeMeta(l.format.shape.listKind)}
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
	buffer := l.format.buffers.Get()
	defer l.format.buffers.Put(buffer)
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
