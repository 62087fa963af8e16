package fields

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"orrery.dev/orrery/internal/protocol/ownership"
)

const (
	leased  = ownership.Owner("edge.0a1b2c3d")
	podHead = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":3,"template":{"spec":`
	podTail = `}}}`
	// podFields are the managed fields of podSpec and replicas.
	podSpec = `{"containers":[
		{"name":"a","image":"x","resources":{"limits":{"cpu":1}},"ports":[{"containerPort":80},{"containerPort":80,"protocol":"UDP"}]},
		{"name":"b","image":"y","resources":{"limits":{"cpu":2}}}],
		"nodeSelector":{"zone":"z","disk":"ssd"},"tolerations":[{"key":"k"}]}`
	podFields = `{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{
		"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:image":{},"f:resources":{"f:limits":{"f:cpu":{}}},"f:ports":{
			"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}},
			"k:{\"containerPort\":80,\"protocol\":\"UDP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}}},
		"k:{\"name\":\"b\"}":{".":{},"f:name":{},"f:image":{},"f:resources":{"f:limits":{"f:cpu":{}}}}},
		"f:nodeSelector":{},"f:tolerations":{}}}},"f:metadata":{"f:finalizers":{"v:\"f\"":{}},"f:labels":{"f:l":{}}}}`
)

func entryOf(manager, operation, fields string) ownership.ManagedFields {
	return ownership.ManagedFields{Manager: manager, Operation: operation, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: json.RawMessage(fields)}
}

func setOf(t *testing.T, fields string) *fieldpath.Set {
	t.Helper()
	s := fieldpath.NewSet()
	if err := s.FromJSON(strings.NewReader(fields)); err != nil {
		t.Fatal(err)
	}
	return s
}

// checkOwners compares the entries of the two managers with the fields that they must own.
func checkOwners(t *testing.T, all []ownership.ManagedFields, mine, lent string) {
	t.Helper()
	x := &Lease{manager: leased.Manager(), mine: fieldpath.NewSet(), lent: fieldpath.NewSet(), live: fieldpath.NewSet()}
	if err := x.read(all); err != nil {
		t.Fatal(err)
	}
	if want := setOf(t, mine); !x.mine.Equals(want) {
		t.Errorf("the location's manager has %s, want %s", x.mine, want)
	}
	if want := setOf(t, lent); !x.lent.Equals(want) {
		t.Errorf("that of released values has %s, want %s", x.lent, want)
	}
}

func TestLeaseMoves(t *testing.T) {
	const flat, lent = `{"f:data":{"f:a":{},"f:b":{}}}`, `{"f:data":{"f:b":{}}}`
	for _, c := range []struct {
		name, release, object, mine, lent string
		wantMine, wantLent, rest          string
	}{
		{"handed over", "$.data.b", `{"data":{"a":1,"b":2}}`, flat, "", `{"f:data":{"f:a":{}}}`, lent, `{"data":{"a":1}}`},
		{"handed over before", "$.data.b", `{"data":{"a":1,"b":2}}`, `{"f:data":{"f:a":{}}}`, lent, `{"f:data":{"f:a":{}}}`, lent, `{"data":{"a":1}}`},
		{"a part again", "$.data.b", `{"data":{"a":1,"b":2}}`, flat, lent, `{"f:data":{"f:a":{}}}`, lent, `{"data":{"a":1}}`},
		{"another has it", "$.data.b", `{"data":{"a":1,"b":2}}`, `{"f:data":{"f:a":{}}}`, "", `{"f:data":{"f:a":{}}}`, `{}`, `{"data":{"a":1}}`},
		{"not written any more", "$.data.b", `{"data":{"a":1}}`, flat, "", `{"f:data":{"f:a":{}}}`, lent, `{"data":{"a":1}}`},
		{"taken back", "", `{"data":{"a":1,"b":2}}`, `{"f:data":{"f:a":{}}}`, lent, flat, `{}`, `{"data":{"a":1,"b":2}}`},
		{"taken back, nothing else ours", "", `{"data":{"b":2}}`, "", lent, lent, `{}`, `{"data":{"b":2}}`},
		{"no longer released nor written", "", `{"data":{"a":1}}`, `{"f:data":{"f:a":{}}}`, lent, `{"f:data":{"f:a":{}}}`, `{}`, `{"data":{"a":1}}`},
		{"another path", "$.data.a", `{"data":{"a":1,"b":2}}`, `{"f:data":{"f:a":{}}}`, lent, lent, `{"f:data":{"f:a":{}}}`, `{"data":{"b":2}}`},
		{"all of a map", "$.data", `{"data":{"a":1,"b":2}}`, flat, "", `{}`, flat, `{}`},
		{"all in a map", "$.data.*", `{"data":{"a":1,"b":2}}`, flat, "", `{}`, flat, `{"data":{}}`},
		{"a large number", "$.data.b", `{"data":{"a":12345678901234567890.10,"b":2}}`, flat, "", `{"f:data":{"f:a":{}}}`, lent, `{"data":{"a":12345678901234567890.10}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			other := entryOf("kubectl", "Update", `{"f:data":{"f:c":{}}}`)
			all := []ownership.ManagedFields{other}
			for manager, fields := range map[string]string{leased.Manager(): c.mine, ownership.ReleasedManager: c.lent} {
				if fields != "" {
					all = append(all, entryOf(manager, "Apply", fields))
				}
			}
			x, err := leaseWith(c.release, []byte(c.object), &ownership.Meta{ManagedFields: all}, leased, answers{})
			if err != nil {
				t.Fatal(err)
			}
			entries, _, err := x.Entries(all)
			if err != nil {
				t.Fatal(err)
			}
			checkOwners(t, entries, c.wantMine, c.wantLent)
			if string(entries[0].FieldsV1) != string(other.FieldsV1) {
				t.Errorf("another's entry is %s", entries[0].FieldsV1)
			}
			if x, err = leaseWith(c.release, []byte(c.object), &ownership.Meta{ManagedFields: entries}, leased, answers{}); err != nil {
				t.Fatal(err)
			}
			if _, changed, err := x.Entries(entries); changed || err != nil {
				t.Errorf("it changes again: %v", err)
			}
			if rest, err := x.Rest([]byte(c.object)); err != nil || string(rest) != c.rest {
				t.Errorf("to apply is %s, want %s: %v", rest, c.rest, err)
			}
		})
	}
}

func podLease(t *testing.T, release, spec string, answered answers, entries ...ownership.ManagedFields) (*Lease, string, error) {
	t.Helper()
	object := []byte(podHead + spec + podTail)
	x, err := leaseWith(release, object, &ownership.Meta{ManagedFields: entries}, leased, answered)
	if err != nil {
		return nil, "", err
	}
	rest, err := x.Rest(object)
	if err != nil {
		t.Fatal(err)
	}
	var o struct {
		Spec struct {
			Template struct{ Spec json.RawMessage }
		}
	}
	if err := json.Unmarshal(rest, &o); err != nil {
		t.Fatal(err)
	}
	return x, string(o.Spec.Template.Spec), nil
}

// Elements of a list are identified by their keys, with defaults.
func TestLeaseElements(t *testing.T) {
	entry := entryOf(leased.Manager(), "Apply", podFields)
	const containers = "$.spec.template.spec.containers"
	for release, want := range map[string]string{
		containers + "[*].resources":                 `{"k:{\"name\":\"a\"}":{"f:resources":{"f:limits":{"f:cpu":{}}}},"k:{\"name\":\"b\"}":{"f:resources":{"f:limits":{"f:cpu":{}}}}}`,
		containers + "[?@.name=='b'].image":          `{"k:{\"name\":\"b\"}":{"f:image":{}}}`,
		containers + "[1]":                           `{"k:{\"name\":\"b\"}":{".":{},"f:name":{},"f:image":{},"f:resources":{"f:limits":{"f:cpu":{}}}}}`,
		containers + "[0].ports[0]":                  `{"k:{\"name\":\"a\"}":{"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}`,
		containers + "[0].ports[?@.protocol=='UDP']": `{"k:{\"name\":\"a\"}":{"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"UDP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}}}}`,
	} {
		x, _, err := podLease(t, release, podSpec, answers{}, entry)
		if err != nil {
			t.Errorf("%s: %v", release, err)
			continue
		}
		_, _, err = x.Entries([]ownership.ManagedFields{entry})
		lent := setOf(t, podFields)
		lent = lent.Difference(lent.RecursiveDifference(x.released))
		if want := setOf(t, `{"f:spec":{"f:template":{"f:spec":{"f:containers":`+want+`}}}}`); err != nil || !lent.Equals(want) {
			t.Errorf("%s: %s, want %s: %v", release, lent, want, err)
		}
	}
}

// An element that is not there yet is made with what is released in it; with one
// that is gone goes what is released in it.
func TestLeaseElementsComeAndGo(t *testing.T) {
	const release = "$.spec.template.spec.containers[*].resources"
	mine := entryOf(leased.Manager(), "Apply", `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}}}}}}`)
	lent := entryOf(ownership.ReleasedManager, "Apply", `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{"f:resources":{}}}}}}}`)
	const added, replaced = `{"containers":[{"name":"b","resources":1},{"name":"a","resources":2}]}`, `{"containers":[{"name":"b","resources":1}]}`
	if _, _, err := podLease(t, release, added, answers{}, mine, lent); !errors.Is(err, errUnowned) {
		t.Errorf("it is not asked for a new element: %v", err)
	}
	live := func(containers ...any) answers {
		return answers{object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": containers}}}}}
	}
	a, b := map[string]any{"name": "a"}, map[string]any{"name": "b"}
	both := live(a, b)
	both.whole = setOf(t, podFields)
	x, rest, err := podLease(t, release, added, both, mine, lent)
	if err != nil || x.Fresh || rest != `{"containers":[{"name":"b"},{"name":"a"}]}` {
		t.Errorf("an element that nobody owns: %s: %v", rest, err)
	}
	x, rest, err = podLease(t, release, added, live(a), mine, lent)
	if err != nil || !x.Fresh || rest != `{"containers":[{"name":"b","resources":1},{"name":"a"}]}` {
		t.Errorf("a new element: %s: %v", rest, err)
	}
	x, rest, err = podLease(t, release, replaced, live(a), mine, lent)
	if err != nil || !x.Fresh || rest != replaced {
		t.Errorf("a replaced element: %s: %v", rest, err)
	}
	entries, changed, err := x.Entries([]ownership.ManagedFields{mine, lent})
	if err != nil || !changed {
		t.Fatalf("an element that is gone is still released: %v", err)
	}
	checkOwners(t, entries, `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:resources":{}}}}}}}`, `{}`)
}

func TestCannotRelease(t *testing.T) {
	entry := entryOf(leased.Manager(), "Apply", podFields)
	for release, want := range map[string]error{
		"$.spec.template.spec.nodeSelector.zone":                   errWhole,
		"$.spec.template.spec.tolerations[0]":                      errWhole,
		"$.spec.template.spec.tolerations[*].key":                  errWhole,
		"$.spec.template.spec.containers[*].name":                  errListed,
		"$.spec.template.spec.containers[0].ports[*].protocol":     errListed,
		"$.spec.template.spec.nodeSelector":                        nil,
		"$.spec.template.spec.tolerations":                         nil,
		"$.spec.template.spec.nodeSelector.missing":                nil,
		"$.spec.template.spec.containers[?@.name=='missing'].name": nil,
	} {
		_, _, err := podLease(t, release, podSpec, answers{whole: fieldpath.NewSet()}, entry)
		if !errors.Is(err, want) || want != nil && !errors.Is(err, ErrCannotRelease) {
			t.Errorf("%s: %v, want %v", release, err, want)
		}
	}
	_, _, err := podLease(t, "$.spec.template.spec.nodeSelector.zone", podSpec, answers{}, entry)
	if want := "cannot release $.spec.template.spec.nodeSelector.zone: the location treats a field that contains it as one value"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, _, err := podLease(t, "$.spec[", podSpec, answers{}, entry); !errors.Is(err, ErrCannotRelease) {
		t.Errorf("a bad path: %v", err)
	}
	// A new element is created with the released values in it, and an element is deleted with them.
	for object, want := range map[string]error{
		`{"spec":{"set":["a","b"]}}`:       errMember,
		`{"spec":{"ports":[{"port":53}]}}`: errTwice,
	} {
		fields := entryOf("kubectl", "Update", `{"f:spec":{"f:set":{"v:\"a\"":{},"v:\"b\"":{}},"f:ports":{
			"k:{\"port\":53,\"protocol\":\"TCP\"}":{".":{}},"k:{\"port\":53,\"protocol\":\"UDP\"}":{".":{}}}}}`)
		if _, err := leaseWith("$.spec.*[0]", []byte(object), &ownership.Meta{ManagedFields: []ownership.ManagedFields{fields}}, leased, answers{}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", object, err, want)
		}
	}
}

// If no manager owns a field inside a value, the value may be atomic. Only the target knows.
func TestLeaseAsks(t *testing.T) {
	mine := entryOf(leased.Manager(), "Apply", `{"f:metadata":{"f:labels":{"f:l":{}}}}`)
	const release = "$.spec.replicas"
	if _, _, err := podLease(t, release, podSpec, answers{}, mine); !errors.Is(err, errWhole) {
		t.Errorf("it is not asked for: %v", err)
	}
	if _, _, err := podLease(t, release, podSpec, answers{whole: setOf(t, podFields)}, mine); err != nil {
		t.Errorf("the answer: %v", err)
	}
}
