package ownership

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// An observation equals the result of encoding/json.
func TestObservationIsDecoded(t *testing.T) {
	const answer = `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","spec":{"replicas":3,"strategy":{"type":"x"}},"metadata":{
"name":"a","namespace":"n\u0061","uid":"u","resourceVersion":"12","generation":3,"deletionTimestamp":"2026-01-01T00:00:00Z",
"labels":{"a.b/c":"d","\u0065":""},"annotations":null,"ownerReferences":[{"kind":"X","controller":true},{"kind":"Y"}],
"managedFields":[{"manager":"m","operation":"Apply","apiVersion":"v1","time":"t","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{}}},"subresource":"status"},{}]},
"status":{"replicas":1,"x":[1,2]}}`
	var got Observation
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		t.Fatal(err)
	}
	type plain struct {
		Kind     string          `json:"kind"`
		Metadata Meta            `json:"metadata"`
		Spec     json.RawMessage `json:"spec"`
		Status   json.RawMessage `json:"status"`
	}
	var want plain
	if err := json.Unmarshal([]byte(answer), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(plain(got), want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, bad := range []string{``, `{`, `{"kind":}`} {
		if err := new(Observation).UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	for _, other := range []string{`null`, `[]`, `"x"`, `{"metadata":null}`, `{"metadata":{"labels":[1],"managedFields":{}}}`} {
		if err := new(Observation).UnmarshalJSON([]byte(other)); err != nil {
			t.Errorf("%q: %v", other, err)
		}
	}
}

// TestTooDeep: a value that is nested deeper than the limit of encoding/json is refused, and does
// not end the process.
func TestTooDeep(t *testing.T) {
	for text, good := range map[string]bool{
		strings.Repeat("[", deepest) + strings.Repeat("]", deepest): true, strings.Repeat("[", 32<<20): false,
	} {
		if _, err := Parse([]byte(text)); (err == nil) != good {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
}
