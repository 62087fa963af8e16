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

// Entry is one value of the log. It and the bytes it points to are never
// changed once made: readers of any age may share it.
type Entry struct {
	// Key is the key below the hub's prefix.
	Key string
	// Value is what is in the log, exactly: JSON, but for reports, see Report.
	Value []byte
	// CreateRev and ModRev are the revisions that made the key and wrote this value.
	CreateRev, ModRev int64
	// Object is what there is besides of keys that hold an object. All others share one that
	// is empty: there are more reports than objects, and they need none of it.
	*Object
}

// Object is what is known of an entry that is an object.
type Object struct {
	// Meta is what the engines need of every object.
	Meta Meta
	// Rendered and AsWritten are caches for readers: the digest of the rendered entry, and
	// the ID of the definition of the kind by which Value can be served as it is stored.
	// They follow from Value, so they are never stale. What is no object has none.
	Rendered  atomic.Pointer[Rendered]
	AsWritten atomic.Uint64
}

// noObject is that of entries that are none; it stays empty.
var noObject = &Object{}

// Rendered is the digest of a rendered entry, and what it was rendered by besides the
// entry.
type Rendered struct {
	Digest wire.Sum
	By     any
}

// Meta is the part of an object's metadata that engines and views look at.
type Meta struct {
	UID        string
	Generation int64
	// Deleting says that a deletion timestamp is set.
	Deleting bool
	Labels   Labels
	// Insert is the offset in Value just behind the opening brace of the
	// metadata, where a reader may splice fields in; 0 if there is none.
	Insert int
	// InsertAnnotation is the same for the annotations; 0 if there are none.
	InsertAnnotation int
}

// NewEntry parses what engines need of a value. The caller must not change value any more.
func NewEntry(k string, value []byte, createRev, modRev int64) *Entry {
	e := &Entry{Key: k, Value: value, CreateRev: createRev, ModRev: modRev, Object: noObject}
	if key.ClassOf(k) == key.Objects {
		e.Object = &Object{Meta: parseMeta(value)}
		e.Meta.UID = strings.Clone(e.Meta.UID)
	}
	return e
}

// newRow makes the row of an update, which belongs to nothing yet. A hub has as many as there
// are objects and reports, and each stays for long amid what is garbage in a moment. So what is
// of one row is in few allocations: one of what has pointers, and one of the key, the UID and a
// value that is short. Apart, each would keep a page of garbage of its size from being given back.
func newRow(u Update) *Row {
	of := Entry{CreateRev: u.CreateRev, ModRev: u.ModRev, Object: noObject}
	if key.ClassOf(u.Key) != key.Objects {
		r := &struct {
			Row
			entry Entry
		}{entry: of}
		r.Entry = &r.entry
		r.keep(u, "")
		return &r.Row
	}
	r := &struct {
		Row
		entry  Entry
		object Object
	}{entry: of}
	r.Entry, r.entry.Object = &r.entry, &r.object
	r.object.Meta = parseMeta(u.Value)
	r.Meta.UID = r.keep(u, r.Meta.UID)
	return &r.Row
}

// shortValue is how long a value is at most that is copied to be with its key.
const shortValue = 512

// keep sets the key and the value, and returns the UID as it is kept: a UID that somebody keeps
// must not keep a long value alive.
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

// Report is the JSON of an entry that is a report. The caller must not change it.
func (e *Entry) Report() []byte { return wire.ReportText(e.Value) }

// Annotation is the value of one annotation, "" if there is none.
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

// parseMeta reads the metadata of a value, of which the UID is a part.
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

// text is a value as a string without a copy, which is safe because values are never
// changed.
func text(value []byte) string { return unsafe.String(unsafe.SliceData(value), len(value)) }

// intern keeps one copy of a string that many objects repeat.
func intern(s string) string { return unique.Make(s).Value() }

// Label is one label of an object.
type Label struct{ Key, Value string }

// Labels are an object's labels in the order of their keys. They satisfy
// labels.Labels, so selectors match them without a map being made.
type Labels []Label

var _ labels.Labels = Labels(nil)

// Lookup returns the value of a label and whether it is there.
func (l Labels) Lookup(k string) (string, bool) {
	i, ok := slices.BinarySearchFunc(l, k, func(a Label, k string) int { return strings.Compare(a.Key, k) })
	if !ok {
		return "", false
	}
	return l[i].Value, true
}

// Has says whether a label is there.
func (l Labels) Has(k string) bool { _, ok := l.Lookup(k); return ok }

// Get returns the value of a label, "" if it is not there.
func (l Labels) Get(k string) string { v, _ := l.Lookup(k); return v }

// Map copies the labels into a map.
func (l Labels) Map() map[string]string {
	m := make(map[string]string, len(l))
	for _, p := range l {
		m[p.Key] = p.Value
	}
	return m
}
