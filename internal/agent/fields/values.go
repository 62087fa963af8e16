package fields

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/lib/quantity"
)

// maxDepth is the depth to which values are compared. It exceeds the depth of schemas, and bounds the cost of a
// comparison.
const maxDepth = 100

// eachCompared calls fn for each field of an object that is compared after an apply, with its value in the
// request and in the answer, until fn returns false. exact is true if strings in it have no other spelling. It
// leaves out fields that the server sets, and a Secret's stringData, which is write-only.
func eachCompared(sent, answer string, fn func(path []string, sent, answer string, exact bool) bool) {
	there := membersOf(answer)
	for _, m := range membersOf(sent).all {
		switch m.name {
		case "apiVersion", "kind", "status", "stringData":
		case "metadata":
			mine, theirs := membersOf(m.value), membersOf(there.get(m.name))
			for _, field := range []string{"labels", "annotations"} {
				if v := mine.get(field); v != "" && !fn([]string{m.name, field}, v, theirs.get(field), true) {
					return
				}
			}
		default:
			if !fn([]string{m.name}, m.value, there.get(m.name), m.name == "data") {
				return
			}
		}
	}
}

// agrees reports whether an answer contains the whole request, with lists in the same order. Nearly all answers
// do, so their managed fields need not be decoded.
func agrees(sent, answer string) bool {
	all := true
	eachCompared(sent, answer, func(_ []string, s, a string, exact bool) bool {
		all = meansSame(s, a, exact, 0)
		return all
	})
	return all
}

// meansSame reports whether a value in an answer has the meaning of the value in the request. Further members of
// a map are not ours and do not count. An empty answer means that the object of the API server has no such value.
func meansSame(sent, answer string, exact bool, depth int) bool {
	switch {
	case sent == answer, sent == "null", depth > maxDepth:
		return true
	case answer == "", answer == "null":
		return omitted(sent, depth)
	case sent[0] == '{':
		return answer[0] == '{' && sameMembers(sent, answer, exact, depth)
	case sent[0] == '[':
		return answer[0] == '[' && sameElements(sent, answer, exact, depth)
	case answer[0] == '{', answer[0] == '[':
		return false
	}
	return sameScalar(gjson.Parse(sent), gjson.Parse(answer), exact)
}

func sameMembers(sent, answer string, exact bool, depth int) bool {
	there, all := membersOf(answer), true
	gjson.Parse(sent).ForEach(func(name, v gjson.Result) bool {
		all = meansSame(v.Raw, there.get(name.Str), exact, depth+1)
		return all
	})
	return all
}

func sameElements(sent, answer string, exact bool, depth int) bool {
	mine, theirs := listOf(sent), listOf(answer)
	if len(mine) != len(theirs) {
		return false
	}
	for i := range mine {
		if !meansSame(mine[i], theirs[i], exact, depth+1) {
			return false
		}
	}
	return true
}

// omitted reports whether a value has the meaning of an absent one: API servers omit empty values.
func omitted(v string, depth int) bool {
	switch v[0] {
	case '{':
		all := true
		gjson.Parse(v).ForEach(func(_, v gjson.Result) bool {
			all = depth > maxDepth || omitted(v.Raw, depth+1)
			return all
		})
		return all
	case '[':
		return len(listOf(v)) == 0
	case '"':
		return v == `""`
	case 'n', 'f':
		return true
	}
	return v[0] != 't' && gjson.Parse(v).Num == 0
}

func sameScalar(sent, answer gjson.Result, exact bool) bool {
	s, a := sent.String(), answer.String()
	switch {
	case sent.Type == answer.Type && s == a:
		return true
	case exact:
		return false
	case sent.Type == gjson.Number && answer.Type == gjson.Number:
		return sameNumber(sent, answer)
	case sent.IsBool() || answer.IsBool():
		return false
	}
	return s == a || slices.Contains(spellings(s), a)
}

// sameNumber compares 64-bit integers exactly, as API servers keep them, and other
// numbers as floating point.
func sameNumber(sent, answer gjson.Result) bool {
	s, sentErr := strconv.ParseInt(sent.Raw, 10, 64)
	a, answerErr := strconv.ParseInt(answer.Raw, 10, 64)
	if sentErr == nil && answerErr == nil {
		return s == a
	}
	return sent.Num == answer.Num
}

// spellings returns other forms in which an API server may write a string: as a quantity, a duration, a time or
// base64.
func spellings(s string) (all []string) {
	if s == "" {
		return nil
	}
	if strings.ContainsRune("+-.0123456789", rune(s[0])) {
		if q, err := quantity.Parse(s); err == nil {
			all = append(all, q.String())
		}
		if d, err := time.ParseDuration(s); err == nil {
			all = append(all, d.String())
		}
		if parsed, err := time.Parse(time.RFC3339, s); err == nil {
			all = append(all, parsed.UTC().Format(time.RFC3339), parsed.UTC().Format(metav1.RFC3339Micro))
		}
	}
	if strings.ContainsAny(s, "\r\n") { // base64 decoders ignore these
		if b, err := base64.StdEncoding.DecodeString(s); err == nil {
			all = append(all, base64.StdEncoding.EncodeToString(b))
		}
	}
	return all
}

// member is one field of a JSON object.
type member struct{ name, value string }

// members are the fields of a JSON object.
type members struct {
	all    []member
	sorted bool
}

// manyMembers is the number of fields above which they are sorted and searched by bisection.
const manyMembers = 16

func membersOf(object string) members {
	var m members
	if object == "" || object[0] != '{' {
		return m
	}
	gjson.Parse(object).ForEach(func(name, v gjson.Result) bool {
		m.all = append(m.all, member{name.Str, v.Raw})
		return true
	})
	if len(m.all) > manyMembers {
		m.sorted = true
		slices.SortStableFunc(m.all, func(a, b member) int { return strings.Compare(a.name, b.name) })
	}
	return m
}

// get returns the value of a field; empty if there is none.
func (m members) get(name string) string {
	if !m.sorted {
		for i := range m.all {
			if m.all[i].name == name {
				return m.all[i].value
			}
		}
		return ""
	}
	if i, ok := slices.BinarySearchFunc(m.all, name, func(m member, name string) int { return strings.Compare(m.name, name) }); ok {
		return m.all[i].value
	}
	return ""
}

func listOf(list string) (all []string) {
	gjson.Parse(list).ForEach(func(_, v gjson.Result) bool {
		all = append(all, v.Raw)
		return true
	})
	return all
}
