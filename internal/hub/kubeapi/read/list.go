package read

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// list is a list of objects of a view. JSON is assembled while it is written, protobuf is
// converted from JSON, and only other forms decode the list.
type list struct {
	metav1.ListMeta
	// Items must have this name: the libraries recognize a list by it.
	Items  []*object
	reader *reader
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
	buffer := l.reader.server.buffers.get()
	defer l.reader.server.buffers.put(buffer)
	p := &pieces{to: w, buffer: buffer}
	if err := l.encode(id, encode, p); err != nil {
		return err
	}
	return p.flush()
}

func (l *list) encode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w *pieces) error {
	switch e := l.reader.shape.catalog[id]; e.form {
	case formJSON:
		return l.writeJSON(encode, w)
	case formPretty:
		return l.writePretty(encode, w)
	case formProtobuf:
		if l.reader.transcoder() != nil {
			return l.writeProtobuf(w)
		}
	case formUnknown:
		l.reader.server.fallbacks.Add(1)
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
	if size, limit := totalSize(l.Items), l.reader.server.config.DecodedListBytes; size > limit {
		return nil, tooLarge(size, limit)
	}
	decoded := l.reader.NewList()
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
	}{metav1.TypeMeta{Kind: l.reader.shape.listKind, APIVersion: l.reader.shape.apiVersion}, l.ListMeta})
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
	if err := writeAll(w, head[:1], head[1:len(head)-1], []byte(`,"items":[`)); err != nil {
		return err
	}
	for i, o := range l.Items {
		if i > 0 {
			if err := writeAll(w, []byte(",")); err != nil {
				return err
			}
		}
		if err := l.writeItem(o, others[o], w); err != nil {
			return err
		}
	}
	return writeAll(w, []byte("]}\n"))
}

// writeItem writes the converted item if there is one, otherwise the bytes of the object.
func (l *list) writeItem(o *object, converted []byte, w io.Writer) error {
	if converted != nil {
		return writeAll(w, converted)
	}
	return o.writeWithout(l.reader.shape.itemHead, w)
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
			if _, err := stored(o.row.Entry); err != nil && !l.reader.display.reports {
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
		if head := l.reader.shape.itemHead; len(head) > 0 && bytes.HasPrefix(item, head) {
			item = item[len(head)-1:]
			item[0] = '{'
		}
		if size += len(item); size > l.reader.server.config.DecodedListBytes {
			return nil, tooLarge(totalSize(l.Items), l.reader.server.config.DecodedListBytes)
		}
		if others == nil {
			others = map[*object][]byte{}
		}
		others[o] = item
	}
	return others, nil
}

func tooLarge(size, limit int) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
		"the list has %d bytes, more than the %d that are served at once if they have to be converted: ask for pages with limit, or for JSON of the version that is stored", size, limit))
}

func totalSize(items []*object) (n int) {
	for _, o := range items {
		n += len(o.row.Value)
		if composed, ok := o.row.In.(*reported); ok && composed.source != nil {
			n += len(composed.source.Value)
		}
	}
	return n
}
