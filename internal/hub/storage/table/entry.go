package table

import (
	"slices"
	"strings"
	"sync/atomic"
	"unique"
	"unsafe"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/labels"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Entry is one value of the log. It is immutable, except for the caches in Object, and so are the
// bytes to which it points, so readers at any revision may share it.
type Entry struct {
	// Key is the key in etcd without the hub's prefix.
	Key string
	// Value is the value in the log, byte by byte: JSON, except for reports, see Report.
	Value []byte
	// CreateRev is the revision that created the key, and ModRev the one that wrote this value.
	CreateRev, ModRev int64
	// Object has the data of an object. Entries of other classes share an empty one, to save memory:
	// there are more reports than objects.
	*Object
}

// Object is the parsed metadata of an object, with caches.
type Object struct {
	Meta Meta
	// Rendered and AsWritten are caches for readers: the digest of the rendered entry, and the ID of
	// the definition of the kind by which Value can be served without conversion. They depend on
	// Value only, so they are never stale.
	Rendered  atomic.Pointer[Rendered]
	AsWritten atomic.Uint64
}

// noObject is the Object of entries of other classes. It must stay empty.
var noObject = &Object{}

// Rendered is the digest of a rendered entry, and the inputs of the rendering besides the entry.
type Rendered struct {
	Digest wire.Sum
	Inputs any
}

// Meta is the part of an object's metadata that engines and views need.
type Meta struct {
	UID        string
	Generation int64
	// Deleting is true if a deletion timestamp is set.
	Deleting bool
	Labels   Labels
	// Insert is the offset in Value behind the opening brace of the metadata, at which a reader may
	// insert fields; 0 if there is no metadata.
	Insert int
	// InsertAnnotation is the same for the annotations; 0 if there are none.
	InsertAnnotation int
}

// NewEntry makes an entry and parses the metadata of an object. It keeps value, which the caller must
// not change afterwards.
func NewEntry(k string, value []byte, createRev, modRev int64) *Entry {
	e := &Entry{Key: k, Value: value, CreateRev: createRev, ModRev: modRev, Object: noObject}
	if key.ClassOf(k) == key.Objects {
		e.Object = &Object{Meta: parseMeta(value)}
		e.Meta.UID = strings.Clone(e.Meta.UID)
	}
	return e
}

// newRow makes the row of an update, without membership and exposure.
//
// A hub has a row for each object and report. Rows live long, among allocations that live briefly. So
// a row has few allocations: one for the structs, and one for the key, the UID and a short value.
// Separate allocations would fragment the heap: each would keep a span of its size class in use.
func newRow(u Update) *Row {
	common := Entry{CreateRev: u.CreateRev, ModRev: u.ModRev, Object: noObject}
	if key.ClassOf(u.Key) != key.Objects {
		r := &struct {
			Row
			entry Entry
		}{entry: common}
		r.Entry = &r.entry
		r.keep(u, "")
		return &r.Row
	}
	r := &struct {
		Row
		entry  Entry
		object Object
	}{entry: common}
	r.Entry, r.entry.Object = &r.entry, &r.object
	r.object.Meta = parseMeta(u.Value)
	r.Meta.UID = r.keep(u, r.Meta.UID)
	return &r.Row
}

// shortValue is the maximum length in bytes of a value that is copied next to its key.
const shortValue = 512

// keep sets the key and the value, and returns a copy of the UID, so that a reader that keeps the UID
// does not keep a long value in memory.
func (e *Entry) keep(u Update, uid string) string {
	k, v := len(u.Key), 0
	if len(u.Value) <= shortValue {
		v = len(u.Value)
	}
	b := make([]byte, 0, k+len(uid)+v)
	b = append(append(append(b, u.Key...), uid...), u.Value[:v]...)
	e.Key = text(b[:k])
	if e.Value = u.Value; v == len(u.Value) {
		e.Value = b[k+len(uid):]
	}
	return text(b[k : k+len(uid)])
}

// Report returns the JSON of an entry that is a report. The caller must not change it.
func (e *Entry) Report() []byte { return wire.ReportText(e.Value) }

// Annotation returns the value of an annotation, or "" if it does not exist.
func (e *Entry) Annotation(name string) string {
	if e.Meta.InsertAnnotation == 0 {
		return ""
	}
	var value string
	gjson.Get(text(e.Value), "metadata.annotations").ForEach(func(k, v gjson.Result) bool {
		if k.String() == name {
			value = strings.Clone(v.String())
			return false
		}
		return true
	})
	return value
}

func (e *Entry) size() int {
	const overhead = 256
	return len(e.Value) + len(e.Key) + overhead
}

// parseMeta parses the metadata of a value. The UID shares the memory of value.
func parseMeta(value []byte) Meta {
	var m Meta
	metadata := gjson.Get(text(value), "metadata")
	if !metadata.IsObject() {
		return m
	}
	m.Insert = metadata.Index + 1
	metadata.ForEach(func(k, v gjson.Result) bool {
		switch k.String() {
		case "uid":
			m.UID = v.String()
		case "generation":
			m.Generation = v.Int()
		case "deletionTimestamp":
			m.Deleting = v.Type != gjson.Null
		case "labels":
			m.Labels = parseLabels(v)
		case "annotations":
			if v.IsObject() {
				m.InsertAnnotation = v.Index + 1
			}
		}
		return true
	})
	return m
}

func parseLabels(object gjson.Result) Labels {
	if !object.IsObject() {
		return nil
	}
	var l Labels
	object.ForEach(func(k, v gjson.Result) bool {
		l = append(l, Label{intern(k.String()), intern(v.String())})
		return true
	})
	slices.SortFunc(l, func(a, b Label) int { return strings.Compare(a.Key, b.Key) })
	return l
}

// text returns a value as a string without a copy. That is safe because values are immutable.
func text(value []byte) string { return unsafe.String(unsafe.SliceData(value), len(value)) }

// intern returns the shared copy of a string that many objects have.
func intern(s string) string { return unique.Make(s).Value() }

// Label is one label of an object.
type Label struct{ Key, Value string }

// Labels are an object's labels in the order of their keys. They implement labels.Labels, so that
// selectors match them without a map.
type Labels []Label

var _ labels.Labels = Labels(nil)

// Lookup returns the value of a label and whether it exists.
func (l Labels) Lookup(k string) (string, bool) {
	i, ok := slices.BinarySearchFunc(l, k, func(a Label, k string) int { return strings.Compare(a.Key, k) })
	if !ok {
		return "", false
	}
	return l[i].Value, true
}

// Has reports whether a label exists. Its name is that of labels.Labels.
func (l Labels) Has(k string) bool { _, ok := l.Lookup(k); return ok }

// Get returns the value of a label, or "" if it does not exist.
func (l Labels) Get(k string) string { v, _ := l.Lookup(k); return v }

// Map copies the labels into a map.
func (l Labels) Map() map[string]string {
	m := make(map[string]string, len(l))
	for _, p := range l {
		m[p.Key] = p.Value
	}
	return m
}
