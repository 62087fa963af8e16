package mapper

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

func TestHowEnded(t *testing.T) {
	jobs, pods := key.NewResource("batch", "jobs"), key.NewResource("", "pods")
	for _, c := range []struct {
		resource     key.Resource
		status, want string
	}{
		{jobs, `{"conditions":[{"type":"Complete","status":"True"}]}`, "Complete"},
		{jobs, `{"conditions":[{"type":"SuccessCriteriaMet","status":"True"}]}`, ""},
		{jobs, `{"conditions":[{"type":"Complete","status":"False"},{"type":"Failed","status":"True"}]}`, "Failed"},
		{jobs, `{"active":1}`, ""},
		{jobs, `"?"`, ""},
		{pods, `{"phase":"Running"}`, ""},
		{pods, `{"phase":"Succeeded"}`, "Succeeded"},
		{pods, `{"phase":"Failed"}`, "Failed"},
		{pods, `{"phase":"Failed","reason":"DeadlineExceeded"}`, "Failed"},
		{pods, `{"phase":"Failed","reason":"Evicted"}`, ""},
		{pods, `{"phase":"Failed","conditions":[{"type":"DisruptionTarget","status":"True"}]}`, ""},
		{key.NewResource("apps", "deployments"), `{"conditions":[{"type":"Complete","status":"True"}]}`, ""},
	} {
		if got := howEnded(c.resource, []byte(c.status)); got != c.want {
			t.Errorf("%s with %s: %q, want %q", c.resource, c.status, got, c.want)
		}
	}
}

// What ended is believed of the object and the content that it was seen of only.
func TestEnded(t *testing.T) {
	seen := ending{uid: "target-uid", how: "Complete"}
	reported := func(content, how string) map[key.Space]*wire.Report {
		return map[key.Space]*wire.Report{"s": {UID: "u", Digest: digest(content), Completed: how}}
	}
	for _, c := range []struct {
		name     string
		turn     turn
		how      string
		reported bool
	}{
		{"seen", turn{record: recordOf("s", "u", "a"), view: view{ending: seen}}, "Complete", false},
		{"seen of another object", turn{record: recordOf("s", "u", "a"), view: view{ending: ending{"other", "Failed"}}}, "", false},
		{"seen of other content", turn{record: recordOf("s", "u", "b"), view: view{ending: seen}}, "", false},
		{"seen of another source", turn{record: recordOf("s", "u2", "a"), view: view{ending: seen}}, "", false},
		{"seen of another space", turn{record: recordOf("o", "u", "a"), view: view{ending: seen}}, "", false},
		{"reported", turn{before: reported("a", "Failed")}, "Failed", true},
		{"reported of other content", turn{before: reported("b", "Failed")}, "", false},
		{"reported and seen again", turn{before: reported("a", "Failed"), record: recordOf("s", "u", "a"), view: view{ending: seen}}, "Complete", true},
		{"running", turn{before: reported("a", ""), record: recordOf("s", "u", "a")}, "", true},
	} {
		c.turn.wants = []spaceWant{{"s", putWant("u", "a")}}
		if how, reported := c.turn.ended(); how != c.how || reported != c.reported {
			t.Errorf("%s: %q %v, want %q %v", c.name, how, reported, c.how, c.reported)
		}
	}
}

// A report keeps how its content ended for as long as it is about that content.
func TestComposeCompleted(t *testing.T) {
	ran := compose(putWant("u", "a"), nil, decision{state: wire.Applied, completed: "Complete"}, nil, nil, now)
	if ran.Completed != "Complete" || ran.Digest != digest("a") || ran.UID != "u" {
		t.Errorf("without a record: %+v", ran)
	}
	w := treated("a", wire.Policy{Orphan: true})
	if r := compose(w, recordOf("s", "u", "a"), decision{state: wire.Applied}, nil, nil, now); !r.Orphan || r.Completed != "" {
		t.Errorf("orphaned when removed: %+v", r)
	}
}

func invalid(messages ...string) error {
	var causes []metav1.StatusCause
	for _, m := range messages {
		causes = append(causes, metav1.StatusCause{Field: "spec.x", Message: m})
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Reason: metav1.StatusReasonInvalid, Code: 422, Details: &metav1.StatusDetails{Causes: causes},
	}}
}

func TestImmutable(t *testing.T) {
	for _, message := range []string{
		`Invalid value: {"app":"x"}: field is immutable`,
		"Forbidden: field is immutable when `immutable` is set",
		"Forbidden: updates to statefulset spec for fields other than 'replicas', 'template' are forbidden",
		"Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
		"Forbidden: updates to parameters are forbidden.",
		"Invalid value: [\"10.0.0.1\"]: may not change once set",
		"Invalid value: 7: may not be changed in an update.",
		"Invalid value: cannot change roleRef",
		"Forbidden: pod updates may not change fields other than `spec.containers[*].image`",
		"Invalid value: field cannot be modified once set",
		"Invalid value: Value is immutable",
	} {
		if !immutable(invalid("Required value", message)) {
			t.Errorf("not recognised: %s", message)
		}
	}
	for _, err := range []error{
		invalid("Invalid value: -1: must be greater than or equal to 0"), invalid("Required value"), invalid(),
		apierrors.NewForbidden(metav1GroupResource, "x", errors.New("is immutable")), errors.New("immutable"), nil,
	} {
		if immutable(err) {
			t.Errorf("taken for a field that can't change: %v", err)
		}
	}
}

func TestOthersFields(t *testing.T) {
	const self = identity("edge.0a1b2c3d")
	ours := managedFields{Manager: self.manager(), Operation: applyOperation}
	other := managedFields{Manager: "kubectl", Operation: "Update", Time: "2030-01-02T03:04:05Z", FieldsType: "FieldsV1", FieldsV1: json.RawMessage(`{}`)}
	if got := othersFields([]managedFields{ours, other}, self); len(got) != 1 || got[0].Manager != "kubectl" {
		t.Errorf("got %+v", got)
	}
	b, err := json.Marshal(orNone(othersFields([]managedFields{ours}, self)))
	if err != nil || string(b) != "[{}]" {
		t.Errorf("none is %s: %v", b, err)
	}
}

func TestAnotherLocation(t *testing.T) {
	for label, want := range map[string]bool{"": false, "edge.0a1b2c3d": false, "edge.ffffffff": false, "other.0a1b2c3d": true, "edge2.0a1b2c3d": true} {
		if got := anotherLocation(label, "edge.0a1b2c3d"); got != want {
			t.Errorf("%q: %v", label, got)
		}
	}
}

func TestTraced(t *testing.T) {
	for _, c := range []struct {
		name   string
		report wire.Report
		rec    *record
		winner int
		want   bool
	}{
		{"applied", wire.Report{State: wire.Applied, Digest: digest("a")}, nil, -1, true},
		{"never applied", wire.Report{State: wire.Failed}, nil, -1, false},
		{"let go", wire.Report{State: wire.Orphaned, Reason: reasonLetGo, Digest: digest("a")}, nil, -1, false},
		{"in use", wire.Report{State: wire.Orphaned, Reason: "InUse", Digest: digest("a")}, nil, -1, true},
		{"recorded", wire.Report{State: wire.Applied, Digest: digest("a")}, recordOf("s", "u", "a"), -1, false},
		{"desired", wire.Report{State: wire.Applied, Digest: digest("a")}, nil, 0, false},
	} {
		of := turn{
			winner: c.winner, wants: []spaceWant{{space: "s"}}, record: c.rec,
			view: view{spaces: []key.Space{"s"}}, before: map[key.Space]*wire.Report{"s": &c.report},
		}
		if got := of.traced(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestLingers(t *testing.T) {
	report := wire.Report{State: wire.Orphaned, Reason: reasonLetGo, Since: now.Format(time.RFC3339)}
	of := turn{winner: -1, view: view{spaces: []key.Space{"s"}}, before: map[key.Space]*wire.Report{"s": &report}}
	for after, want := range map[time.Duration]time.Duration{-time.Hour: letGoFor, 0: letGoFor, letGoFor - 1: 1, time.Hour: letGoFor - time.Hour} {
		if got := of.lingers(now.Add(after)); got != want {
			t.Errorf("after %s: %s, want %s", after, got, want)
		}
	}
	report.Reason = "InUse"
	if got := of.lingers(now); got != 0 {
		t.Errorf("what is in use: %s", got)
	}
}

func TestMarksOnly(t *testing.T) {
	o, err := key.ParsePath("s/core/configmaps/n/a")
	if err != nil {
		t.Fatal(err)
	}
	body, err := dress([]byte(`{"apiVersion":"v1","data":{"x":"y"},"kind":"ConfigMap","metadata":{"labels":{"a.b/c":"d"},"name":"a","namespace":"n"}}`),
		"edge.0a1b2c3d", o, &source{UID: "u", Policy: wire.Policy{Orphan: true}}, "f")
	if err != nil {
		t.Fatal(err)
	}
	if body, err = marksOnly(body); err != nil {
		t.Fatal(err)
	}
	var got observation
	var all map[string]any
	if err := errors.Join(json.Unmarshal(body, &got), json.Unmarshal(body, &all)); err != nil {
		t.Fatal(err)
	}
	if _, ours := got.Metadata.provesOurs("edge.0a1b2c3d", "ConfigMap"); !ours || len(got.Metadata.Labels) != 2 || got.Metadata.UID != "f" || len(all) != 3 {
		t.Errorf("got %s", body)
	}
	if got.Metadata.Annotations[v1alpha1.OnRemoveAnnotation] != onRemoveOrphan {
		t.Errorf("it does not say that it is to stay: %s", body)
	}
}

func TestLostFields(t *testing.T) {
	meta := func(fields string) *objectMeta {
		return &objectMeta{ManagedFields: []managedFields{{Manager: "orrery/edge.0a1b2c3d", Operation: applyOperation, FieldsV1: json.RawMessage(fields)}}}
	}
	then := meta(`{"f:data":{"f:a":{},"f:b":{}},"f:metadata":{"f:labels":{"f:x":{}}}}`)
	got, err := lostFields(then, meta(`{"f:data":{"f:b":{}}}`), "edge.0a1b2c3d")
	if err != nil || !slices.Equal(got, []string{".data.a", ".metadata.labels.x"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err = lostFields(then, then, "edge.0a1b2c3d"); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
}
