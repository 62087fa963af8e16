package downsync

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	appsv1 "k8s.io/api/apps/v1"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/cost"
)

// nested is text within so many levels.
func nested(levels int, begin, text, end string) []byte {
	return []byte(strings.Repeat(begin, levels) + text + strings.Repeat(end, levels))
}

// TestTravelReadsOnce: an object is read once, however deeply it is nested and whatever the order of its names. One that
// is nested too deeply for the check of its syntax is refused.
func TestTravelReadsOnce(t *testing.T) {
	const levels = 9000
	inner := `"` + strings.Repeat("x", 1<<16) + `"`
	for name, object := range map[string][]byte{
		"objects":  nested(levels, `{"a":`, inner, "}"),
		"unsorted": nested(levels, `{"b":1,"a":`, inner, "}"),
		"lists":    []byte(`{"a":` + string(nested(levels, "[", inner, "]")) + "}"),
	} {
		t.Run(name, func(t *testing.T) {
			cost.Within(t, 100, func() { json.Valid(object) }, func() {
				if _, err := Custom("example.org").Travel(object); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
	if _, err := Custom("example.org").Travel(nested(2*maxDepth, `{"a":`, "1", "}")); err == nil || !strings.Contains(err.Error(), "nested deeper") {
		t.Errorf("an object that is nested too deeply: %v", err)
	}
}

// FuzzTravel checks that the encoder makes the same bytes as a plain one, which reads a value once per
// level, and takes memory in proportion to the object.
func FuzzTravel(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { "b" : [ 1 , "x" ] , "a" : { } } `, `{"a":1,"a":2,"b":{"c":null,"c":[]}}`, `{"a":"\u0041\ud800\"<>","\u0061":1}`,
		`{"metadata":{"uid":"u","name":"n","annotations":{"orrery.dev/space":"s"},"labels":null},"status":{"a":[{}]}}`,
		`{"spec":{"replicas":null,"template":{"spec":{"containers":[{"resources":{},"name":"x"}]}},"strategy":{}}}`,
		`{"spec":{"template":{"metadata":{"creationTimestamp":null}}},"spec":{}}`, "{\"\xff\":\"\xff\",\"\xfe\":1.50}", `{"status":1,"status":{}}`,
		string(nested(300, `{"b":[0,`, "1", `],"a":{}}`)),
	} {
		f.Add([]byte(seed))
	}
	filters := []*Filter{nil, Custom("example.org"), Types{}.Filter(reflect.TypeFor[appsv1.Deployment](), key.NewResource("apps", "deployments"), true)}
	f.Fuzz(func(t *testing.T, object []byte) {
		if !gjson.ValidBytes(object) || bytes.Count(object, []byte("[")) > maxDepth/2 || bytes.Count(object, []byte("{")) > maxDepth/2 {
			return
		}
		for i, filter := range filters {
			var got []byte
			if used := cost.Allocated(func() { got = filter.append(nil, object) }); used > 1<<20+uint64(100*len(object)) {
				t.Errorf("filter %d takes %d bytes for an object of %d", i, used, len(object))
			}
			if want := filter.plainly(nil, gjson.ParseBytes(object)); !bytes.Equal(got, want) {
				t.Errorf("filter %d makes of %q\n%q, want\n%q", i, object, got, want)
			}
		}
	})
}

// plainly does what append does, by recursion.
func (f *Filter) plainly(dst []byte, v gjson.Result) []byte {
	type member struct {
		name  string
		value gjson.Result
	}
	var members []member
	if !v.IsObject() && !v.IsArray() {
		return appendScalar(dst, strings.TrimSpace(v.Raw))
	}
	v.ForEach(func(name, value gjson.Result) bool {
		members = append(members, member{name.String(), value})
		return true
	})
	if v.IsArray() {
		dst = append(dst, '[')
		for i, m := range members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = f.ofEach().plainly(dst, m.value)
		}
		return append(dst, ']')
	}
	slices.SortStableFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	dst = append(dst, '{')
	begin := len(dst)
	for i, m := range members {
		if i+1 < len(members) && members[i+1].name == m.name {
			continue
		}
		before := len(dst)
		if before > begin {
			dst = append(dst, ',')
		}
		dst = append(appendQuoted(dst, m.name), ':')
		field, ok := f.field(m.name)
		start := len(dst)
		switch {
		case !ok:
			dst = f.ofEach().plainly(dst, m.value)
		case field.drop || field.dropNull && m.value.Type == gjson.Null:
			dst = dst[:before]
		default:
			if dst = field.inner.plainly(dst, m.value); field.zero != nil && bytes.Equal(dst[start:], field.zero) {
				dst = dst[:before]
			}
		}
	}
	return append(dst, '}')
}
