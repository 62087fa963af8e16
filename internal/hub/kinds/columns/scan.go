package columns

import (
	"bytes"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/lib/jsonscan"
)

// A Scanner makes the cells of an object's row from its JSON. Decoding each object of a long list would
// cost many times more than the rest of the work for its row.
type Scanner interface {
	// Scan appends the cells in JSON, separated by commas, and returns the offset of the end of the
	// object's metadata; 0 for an object without metadata. If the object has to be decoded for its
	// cells, ok is false and nothing is appended. The JSON must be that of an object of the kind.
	Scan(to, object []byte) (cells []byte, metadata int, ok bool)
}

var _ Scanner = table{}

// Scan implements Scanner.
func (t table) Scan(to, object []byte) (cells []byte, metadata int, ok bool) {
	var s scan
	switch {
	case t.scan != nil:
		s, cells = t.scan(object, to, t.now())
	case t.cells != nil:
		return to, 0, false
	default:
		s, cells = scanPlain(object, to, t.now())
	}
	if s.failed {
		return to, 0, false
	}
	return cells, s.metadataEnd, true
}

// scan visits the fields of an object once. It fails for JSON that encoders of objects do not write, such
// as an escaped name or a repeated field; such objects have to be decoded.
type scan struct {
	cursor jsonscan.Cursor
	field  []byte // whose value is next, in quotes
	failed bool

	begun, hasCreated bool

	metadataEnd int    // 0: none were there yet
	name        []byte // in quotes
	created     time.Time
}

// next steps to the next field. It reads metadata by itself.
func (s *scan) next() bool {
	if !s.begun {
		s.begun, s.failed = true, !s.cursor.Open('{')
	}
	for s.more() {
		if string(s.field) != `"metadata"` {
			return true
		}
		s.metadata()
	}
	return false
}

// more steps to the next field of the object that is open, or out of it.
func (s *scan) more() bool {
	if s.failed {
		return false
	}
	if !s.cursor.More() {
		s.failed = !s.cursor.Close()
		return false
	}
	var ok bool
	if s.field, ok = s.cursor.Name(); !ok || bytes.IndexByte(s.field, '\\') >= 0 {
		s.failed = true
	}
	return !s.failed
}

// value is that of the field, of which there may be only one.
func (s *scan) value(twice bool) []byte {
	v, ok := s.cursor.Value()
	if !ok || twice {
		s.failed = true
	}
	return v
}

// pass steps over the value of a field that shows in no cell.
func (s *scan) pass() { s.value(false) }

// text is the value of a field, in quotes, if it is one that can be shown as it is written.
func (s *scan) text(twice bool) []byte {
	v := s.value(twice)
	if s.failed || v[0] != '"' || !jsonscan.IsPlain(v[1:len(v)-1]) {
		s.failed = true
		return nil
	}
	return v
}

func (s *scan) metadata() {
	if s.metadataEnd > 0 || !s.cursor.Open('{') {
		s.failed = true
		return
	}
	for s.more() {
		switch string(s.field) {
		case `"name"`:
			s.name = s.text(s.name != nil)
		case `"creationTimestamp"`:
			v := s.value(s.hasCreated)
			s.hasCreated = true
			if !s.failed && string(v) != "null" {
				s.failed = v[0] != '"' || s.created.UnmarshalText(v[1:len(v)-1]) != nil
			}
		default:
			s.pass()
		}
	}
	s.metadataEnd = s.cursor.Offset()
}

// count adds up the entries of a map of texts. They have to be in the order in which they are encoded,
// so that none is there twice.
func (s *scan) count(n *int64, twice bool) {
	if !s.cursor.Open('{') {
		s.failed = string(s.value(twice)) != "null" || s.failed
		return
	}
	var last []byte
	for s.failed = s.failed || twice; s.more(); *n++ {
		if bytes.Compare(last, s.field) >= 0 {
			s.failed = true
			return
		}
		last = s.field
		if v := s.value(false); !s.failed && v[0] != '"' {
			s.failed = true
		}
	}
}

// appendName appends the name, which an object may not have yet.
func (s *scan) appendName(to []byte) []byte {
	if s.name == nil {
		return append(to, `""`...)
	}
	return append(to, s.name...)
}

// appendAge appends the age as a text.
func (s *scan) appendAge(to []byte, now time.Time) []byte {
	return gjson.AppendJSONString(to, age(metav1.NewTime(s.created), now))
}

// scanPlain appends name and age alone.
func scanPlain(object, to []byte, now time.Time) (s scan, cells []byte) {
	s.cursor = jsonscan.NewCursor(object)
	for s.next() {
		s.pass()
	}
	to = s.appendAge(append(s.appendName(to), ','), now)
	return s, to
}

// scanConfigMap appends the cells of a ConfigMap.
func scanConfigMap(object, to []byte, now time.Time) (s scan, cells []byte) {
	s.cursor = jsonscan.NewCursor(object)
	var n int64
	var data, binary bool
	for s.next() {
		switch string(s.field) {
		case `"data"`:
			s.count(&n, data)
			data = true
		case `"binaryData"`:
			s.count(&n, binary)
			binary = true
		default:
			s.pass()
		}
	}
	to = strconv.AppendInt(append(s.appendName(to), ','), n, 10)
	to = s.appendAge(append(to, ','), now)
	return s, to
}

// scanSecret appends the cells of a Secret.
func scanSecret(object, to []byte, now time.Time) (s scan, cells []byte) {
	s.cursor = jsonscan.NewCursor(object)
	var n int64
	var data bool
	var kind []byte
	for s.next() {
		switch string(s.field) {
		case `"data"`:
			s.count(&n, data)
			data = true
		case `"type"`:
			kind = s.text(kind != nil)
		case `"stringData"`: // adds to data
			s.failed = true
		default:
			s.pass()
		}
	}
	to = append(s.appendName(to), ',')
	if len(kind) <= len(`""`) {
		to = append(to, `"`+corev1.SecretTypeOpaque+`"`...)
	} else {
		to = append(to, kind...)
	}
	to = strconv.AppendInt(append(to, ','), n, 10)
	to = s.appendAge(append(to, ','), now)
	return s, to
}
