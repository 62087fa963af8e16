package hub_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
)

// TestCustomizersReachAgents follows what Customizers change for a location: a put with
// the same object and another policy, which is part of the root, in a session and when
// one is resumed. What was applied stays applied.
func TestCustomizersReachAgents(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	a := r.join("a")
	s := a.open(0, "")
	hello, _ := s.next()
	have := holding{}
	a.walk(have)
	before := have.root()
	if before != hello.Hello.Root {
		t.Fatal("the walk gave another root than the hello")
	}
	put := func(what, release string) *wire.Put {
		t.Helper()
		f, ok := s.next()
		if !ok || f.Put == nil || f.Put.Policy != (wire.Policy{Release: release}) || f.Put.Digest != wire.SumOf(f.Put.Object) {
			t.Fatalf("%s: got %+v", what, f)
		}
		have.take(s.t, f)
		if f, _ := s.next(); f.Mark == nil || f.Mark.Root != have.root() {
			t.Fatalf("%s: got %+v, want a mark with the root of the sent objects", what, f)
		}
		return f.Put
	}
	customizers := r.space("s").Resource(customizersGVR)
	r.create("s", customizersGVR, object("orrery.dev/v1alpha1", "Customizer", "", "z", nil, map[string]any{"spec": map[string]any{
		"match": []any{map[string]any{"resources": []any{"configmaps"}}},
		"rules": []any{map[string]any{"path": "$.data.b", "release": true}, map[string]any{"path": "$.data.a", "release": true}},
	}}))
	released := put("created", "$.data.a\n$.data.b")
	if have.root() == before {
		t.Error("what is released is not part of the root")
	}
	if _, err := customizers.Patch(t.Context(), "z", types.MergePatchType,
		[]byte(`{"spec":{"rules":[{"path":"$.data.b","release":true}]}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if edited := put("edited", "$.data.b"); edited.Digest != released.Digest || edited.UID != released.UID {
		t.Errorf("the object changed with its policy: %+v, %+v", released, edited)
	}
	if err := customizers.Delete(t.Context(), "z", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	put("deleted", "")
	if have.root() != before {
		t.Error("the root is not what it was before the Customizer")
	}
}

// TestCustomizerStatus checks that the status of a Customizer reports that it is in force. The status is
// written once, and again if a user overwrites it.
func TestCustomizerStatus(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.create("s", customizersGVR, object("orrery.dev/v1alpha1", "Customizer", "", "z", nil, map[string]any{"spec": map[string]any{
		"match": []any{map[string]any{"resources": []any{"configmaps"}}},
		"rules": []any{map[string]any{"path": "$.data.a", "release": true}},
	}}))
	customizers := r.space("s").Resource(customizersGVR)
	accepted := func() string {
		u, err := customizers.Get(t.Context(), "z", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		conditions, _ := dig(u.Object, "status", "conditions").([]any)
		if len(conditions) != 2 {
			return "not two conditions"
		}
		for i, name := range []string{"Accepted", "Ready"} {
			if c := conditions[i].(map[string]any); c["type"] != name || c["status"] != "True" || c["observedGeneration"] != u.GetGeneration() {
				return text(c)
			}
		}
		return ""
	}
	r.eventually(accepted)
	for _, body := range []string{`{"spec":{"rules":[{"path":"$.data.b","release":true}]}}`, `{"metadata":{"labels":{"a":"b"}}}`} {
		if _, err := customizers.Patch(t.Context(), "z", types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		r.eventually(accepted)
	}
	if _, err := customizers.Patch(t.Context(), "z", types.MergePatchType, []byte(`{"status":null}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	r.eventually(accepted)
}

// TestReadyAfterRules checks that no reader sees a Customizer Ready whose rule fails for an object, also not
// between the acceptance of the rule and its first evaluation.
func TestReadyAfterRules(t *testing.T) {
	t.Parallel()
	r := startPrepared(t, t.TempDir(), func(hub.Internals) {})
	r.placeMarked()
	customizers := r.space("s").Resource(customizersGVR)
	w, err := customizers.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	r.create("s", customizersGVR, object("orrery.dev/v1alpha1", "Customizer", "", "z", nil, ruled(map[string]any{"path": "$.data.site", "expression": "location.properties.site.lowerAscii()"})))
	for {
		event := limit.Receive(t, w.ResultChan(), "Ready of the Customizer has the reason RuleFailed")
		u, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("the watch ends with %+v", event.Object)
		}
		conditions, _ := dig(u.Object, "status", "conditions").([]any)
		if len(conditions) == 0 {
			t.Fatalf("there is no condition: %s", text(u))
		}
		switch c := conditions[len(conditions)-1].(map[string]any); {
		case c["type"] != "Ready" || c["status"] == "True":
			t.Fatalf("the last condition is %s", text(c))
		case c["reason"] == "RuleFailed":
			return
		}
	}
}
