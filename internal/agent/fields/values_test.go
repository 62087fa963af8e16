package fields

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/ownership"
)

// answerWith returns an answer to an apply: an object, of which the location's manager owns fields.
func answerWith(t testing.TB, object, owned string) *ownership.Answer {
	t.Helper()
	var a ownership.Answer
	if err := a.UnmarshalJSON([]byte(object)); err != nil {
		t.Fatal(err)
	}
	a.Metadata.ManagedFields = []ownership.ManagedFields{{Manager: testIdentity.Manager(), Operation: "Apply", FieldsV1: json.RawMessage(owned)}}
	return &a
}

const testIdentity = ownership.Owner("edge.0a1b2c3d")

// ownedContainers are the managed fields of a manager that has applied two containers, each with a port.
const ownedContainers = `{"f:spec":{"f:containers":{` +
	`"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:image":{},"f:args":{},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{}}}},` +
	`"k:{\"name\":\"b\"}":{".":{},"f:name":{},"f:image":{}}},"f:tolerations":{}}}`

func TestDifferences(t *testing.T) {
	const ownedSpec = `{"f:spec":{"f:n":{},"f:m":{"f:a":{},"f:b":{}},"f:list":{},"f:set":{"v:\"a\"":{},"v:\"b\"":{}}},` +
		`"f:data":{"f:v":{}},"f:metadata":{"f:labels":{"f:l":{}},"f:annotations":{"f:l":{}}}}`
	for _, c := range []struct {
		name, sent, answer, owned string
		want                      []string
	}{
		{"the same", `{"spec":{"n":2}}`, `{"spec":{"n":2}}`, ownedSpec, nil},
		{"more", `{"spec":{"n":2}}`, `{"spec":{"n":2,"other":1},"status":{}}`, ownedSpec, nil},
		{"another number", `{"spec":{"n":2}}`, `{"spec":{"n":3}}`, ownedSpec, []string{".spec.n"}},
		{"a large number", `{"spec":{"n":9007199254740993}}`, `{"spec":{"n":9007199254740992}}`, ownedSpec, []string{".spec.n"}},
		{"a number that no server keeps", `{"spec":{"n":18446744073709551617}}`, `{"spec":{"n":18446744073709552000}}`, ownedSpec, nil},
		{"a number in other words", `{"spec":{"n":1.0}}`, `{"spec":{"n":1}}`, ownedSpec, nil},
		{"not ours", `{"spec":{"pruned":2}}`, `{"spec":{}}`, ownedSpec, nil},
		{"removed", `{"spec":{"n":2}}`, `{"spec":{}}`, ownedSpec, []string{".spec.n"}},
		{"all removed", `{"spec":{"n":2}}`, `{}`, ownedSpec, []string{".spec"}},
		{"zeros omitted", `{"spec":{"n":0,"m":{"a":"","b":{"c":[],"d":false}}}}`, `{}`, ownedSpec, nil},
		{"null", `{"spec":{"n":null}}`, `{"spec":{"n":3}}`, ownedSpec, nil},
		{"zero is a value", `{"spec":{"n":0}}`, `{"spec":{"n":3}}`, ownedSpec, []string{".spec.n"}},
		{"false is a value", `{"spec":{"n":false}}`, `{"spec":{"n":true}}`, ownedSpec, []string{".spec.n"}},
		{"quantity", `{"spec":{"n":"1000m","m":{"a":0.5,"b":"1024Mi"}}}`, `{"spec":{"n":"1","m":{"a":"500m","b":"1Gi"}}}`, ownedSpec, nil},
		{"another quantity", `{"spec":{"n":"1000m"}}`, `{"spec":{"n":"2"}}`, ownedSpec, []string{".spec.n"}},
		{"a version is no quantity", `{"spec":{"n":"1.10"}}`, `{"spec":{"n":"1.1"}}`, ownedSpec, []string{".spec.n"}},
		{"int or string", `{"spec":{"n":"80"}}`, `{"spec":{"n":80}}`, ownedSpec, nil},
		{"another port", `{"spec":{"n":"http"}}`, `{"spec":{"n":80}}`, ownedSpec, []string{".spec.n"}},
		{"a time", `{"spec":{"n":"2020-01-01T01:00:00+01:00"}}`, `{"spec":{"n":"2020-01-01T00:00:00Z"}}`, ownedSpec, nil},
		{"a fine time", `{"spec":{"n":"2020-01-01T00:00:00Z"}}`, `{"spec":{"n":"2020-01-01T00:00:00.000000Z"}}`, ownedSpec, nil},
		{"a duration", `{"spec":{"n":"90s"}}`, `{"spec":{"n":"1m30s"}}`, ownedSpec, nil},
		{"base64 on lines", `{"spec":{"n":"aGVs\nbG8=\n"}}`, `{"spec":{"n":"aGVsbG8="}}`, ownedSpec, nil},
		{"escapes", `{"spec":{"n":"<a>"}}`, `{"spec":{"n":"\u003ca\u003e"}}`, ownedSpec, nil},
		{"texts of users are exact", `{"data":{"v":"1000m"}}`, `{"data":{"v":"1"}}`, ownedSpec, []string{".data.v"}},
		{"labels are exact", `{"metadata":{"labels":{"l":"90s"}}}`, `{"metadata":{"labels":{"l":"1m30s"}}}`, ownedSpec, []string{".metadata.labels.l"}},
		{"an annotation is taken away", `{"metadata":{"annotations":{"l":"x"}}}`, `{"metadata":{}}`, ownedSpec, []string{".metadata.annotations"}},
		{"other metadata", `{"metadata":{"uid":"a","resourceVersion":"1"}}`, `{"metadata":{"uid":"b","resourceVersion":"7"}}`, ownedSpec, nil},
		{"status", `{"status":{"a":1}}`, `{}`, `{"f:status":{"f:a":{}}}`, nil},
		{"stringData", `{"stringData":{"a":"b"}}`, `{"data":{"a":"Yg=="}}`, `{"f:stringData":{"f:a":{}}}`, nil},
		{"atomic list: order", `{"spec":{"list":["a","b"]}}`, `{"spec":{"list":["b","a"]}}`, ownedSpec, []string{".spec.list"}},
		{"atomic list: more", `{"spec":{"list":["a"]}}`, `{"spec":{"list":["a","b"]}}`, ownedSpec, []string{".spec.list"}},
		{"set: order and more", `{"spec":{"set":["a","b"]}}`, `{"spec":{"set":["c","b","a"]}}`, ownedSpec, nil},
		{"set: less", `{"spec":{"set":["a","b"]}}`, `{"spec":{"set":["b"]}}`, ownedSpec, []string{".spec.set"}},
		{
			"a sidecar before", `{"spec":{"containers":[{"name":"a","image":"x","args":["1"],"ports":[{"containerPort":80,"name":"p"}]},{"name":"b","image":"y"}]}}`,
			`{"spec":{"containers":[{"name":"s","image":"z"},{"name":"a","image":"x","args":["1"],"ports":[{"containerPort":80,"name":"p","protocol":"TCP"}]},{"name":"b","image":"y"}]}}`,
			ownedContainers, nil,
		},
		{
			"an image behind a sidecar", `{"spec":{"containers":[{"name":"a","image":"x","args":["1"]},{"name":"b","image":"y"}]}}`,
			`{"spec":{"containers":[{"name":"s"},{"name":"b","image":"mirror/y"},{"name":"a","image":"x","args":["1","2"]}]}}`,
			ownedContainers, []string{`.spec.containers[name="a"].args`, `.spec.containers[name="b"].image`},
		},
		{
			"an element is removed", `{"spec":{"containers":[{"name":"a","image":"x"},{"name":"b","image":"y"}]}}`,
			`{"spec":{"containers":[{"name":"a","image":"x"}]}}`, ownedContainers, []string{`.spec.containers[name="b"]`},
		},
		{
			"a port by another name", `{"spec":{"containers":[{"name":"a","ports":[{"containerPort":80,"name":"p"}]}]}}`,
			`{"spec":{"containers":[{"name":"a","ports":[{"containerPort":80,"name":"q","protocol":"TCP"},{"containerPort":81,"protocol":"TCP"}]}]}}`,
			ownedContainers, []string{`.spec.containers[name="a"].ports[containerPort=80,protocol="TCP"].name`},
		},
		{
			"tolerations are added", `{"spec":{"tolerations":[{"key":"a"},{"key":"b"}]}}`,
			`{"spec":{"tolerations":[{"key":"n"},{"key":"b"},{"key":"a"}]}}`, ownedContainers, nil,
		},
		{
			"a toleration is removed", `{"spec":{"tolerations":[{"key":"a"}]}}`, `{"spec":{"tolerations":[{"key":"n"}]}}`,
			ownedContainers, []string{".spec.tolerations"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Mutated(answerWith(t, c.answer, c.owned), c.sent, testIdentity)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("differences are %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// TestComparingIsBounded counts the allocations of comparisons: an object of ten times the size
// takes far fewer than a hundred times as many. BenchmarkMutated measures the time.
func TestComparingIsBounded(t *testing.T) {
	const n, factor = 400, 10
	for name, generate := range map[string]func(n int) (sent, answer, owned string, want int){"elements": manyElements, "set": manyValues, "depth": deepFields} {
		allocations := func(n int) float64 {
			sent, answer, owned, want := generate(n)
			object := answerWith(t, answer, owned)
			return testing.AllocsPerRun(1, func() {
				got, err := Mutated(object, sent, testIdentity)
				if err != nil || len(got) != want {
					t.Fatalf("%s: %d differences, %v; want %d", name, len(got), err, want)
				}
			})
		}
		small, large := allocations(n), allocations(factor*n)
		t.Logf("%s: %.0f, %.0f", name, small, large)
		most := 2 * factor * small
		if name == "depth" { // n/4 reaches maxDepth already
			most = 2 * small
		}
		if large > most {
			t.Errorf("%s: %d take %.0f allocations, %d take %.0f", name, n, small, factor*n, large)
		}
	}
}

func BenchmarkMutated(b *testing.B) {
	for name, generate := range map[string]func(n int) (sent, answer, owned string, want int){"elements": manyElements, "set": manyValues, "depth": deepFields} {
		for _, n := range []int{400, 4000} {
			b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) {
				sent, answer, owned, _ := generate(n)
				object := answerWith(b, answer, owned)
				for b.Loop() {
					if _, err := Mutated(object, sent, testIdentity); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// manyElements returns lists of n elements with names, in another order and with other values.
func manyElements(n int) (sent, answer, owned string, want int) {
	var mine, theirs, fields []string
	for i := range n {
		mine = append(mine, fmt.Sprintf(`{"name":"n%d","value":"1"}`, i))
		theirs = append(theirs, fmt.Sprintf(`{"name":"n%d","value":"2"}`, n-1-i))
		fields = append(fields, fmt.Sprintf(`"k:{\"name\":\"n%d\"}":{"f:name":{},"f:value":{}}`, i))
	}
	return `{"spec":[` + strings.Join(mine, ",") + `]}`, `{"spec":[` + strings.Join(theirs, ",") + `]}`, `{"f:spec":{` + strings.Join(fields, ",") + `}}`, n
}

// manyValues returns a set of n values, one of which is lost.
func manyValues(n int) (sent, answer, owned string, want int) {
	var set []string
	for i := range n {
		set = append(set, fmt.Sprintf(`"%d"`, n-1-i))
	}
	all := strings.Join(set, ",")
	return `{"spec":[` + all + `,"x"]}`, `{"spec":[` + all + `]}`, `{"f:spec":{"v:\"1\"":{}}}`, 1
}

// deepFields returns nested fields, at the greatest depth that JSON may have, which no manager owns.
func deepFields(n int) (sent, answer, owned string, want int) {
	deep, up := strings.Repeat(`{"a":[`, n/4), strings.Repeat(`]}`, n/4)
	return `{"spec":` + deep + `1` + up + `}`, `{"spec":` + deep + `2` + up + `}`, `{"f:spec":{}}`, 0
}

func BenchmarkAgrees(b *testing.B) {
	sent := `{"apiVersion":"v1","data":{"payload":"` + strings.Repeat("0123456789abcdef", 52) + `","value":"1"},"kind":"ConfigMap",` +
		`"metadata":{"annotations":{"a":"b"},"labels":{"app":"bench"},"name":"a","namespace":"b"}}`
	answer := strings.Replace(sent, `"metadata":{`, `"metadata":{"uid":"a","resourceVersion":"1",`, 1)
	for b.Loop() {
		if !agrees(sent, answer) {
			b.Fatal("they differ")
		}
	}
}

func TestLostFields(t *testing.T) {
	meta := func(fields string) *ownership.Meta {
		return &ownership.Meta{ManagedFields: []ownership.ManagedFields{{Manager: "orrery/edge.0a1b2c3d", Operation: "Apply", FieldsV1: json.RawMessage(fields)}}}
	}
	then := meta(`{"f:data":{"f:a":{},"f:b":{}},"f:metadata":{"f:labels":{"f:x":{}}}}`)
	got, err := Lost(then, meta(`{"f:data":{"f:b":{}}}`), "edge.0a1b2c3d")
	if err != nil || !slices.Equal(got, []string{".data.a", ".metadata.labels.x"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err = Lost(then, then, "edge.0a1b2c3d"); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestHugeQuantities shows that a string that would be a quantity with a billion digits is compared as a string,
// in little time and memory.
func TestHugeQuantities(t *testing.T) {
	for _, text := range []string{"1e-2000000000", "1234567890123456789012e2000000000"} {
		if agrees(`{"spec":{"a":"`+text+`"}}`, `{"spec":{"a":"1"}}`) {
			t.Errorf("%s agrees with 1", text)
		}
	}
}
