package decide

import (
	"testing"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/wire"
)

// A report keeps how a Job or Pod ended for as long as it is about the same content.
func TestComposeCompleted(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	ran := Compose(putWant("a"), nil, Decision{State: wire.Applied, Completed: "Complete"}, Live{}, nil, now)
	if ran.Completed != "Complete" || ran.Digest != digest("a") || ran.UID != "u" {
		t.Errorf("without a record: %+v", ran)
	}
	w := treated("a", wire.Policy{Orphan: true})
	if r := Compose(w, recordOf("s", "a"), Decision{State: wire.Applied}, Live{}, nil, now); !r.Orphan || r.Completed != "" {
		t.Errorf("orphaned when removed: %+v", r)
	}
}

func TestCompose(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	w := putWant("b")
	w.Leaf.Policy.ReturnStatus = true
	rec := recordOf("s", "a")
	first := Compose(w, rec, Decision{State: wire.Applied}, Live{Status: []byte(`{"x":1}`)}, nil, now)
	if first.Since != "2030-01-02T03:04:05Z" || string(first.Status) != `{"x":1}` || first.Digest != digest("a") {
		t.Errorf("got %+v", first)
	}
	again := Compose(w, rec, Decision{State: wire.Applied, Message: "more"}, Live{}, &first, now.Add(time.Hour))
	if again.Since != first.Since {
		t.Errorf("since changed with the message to %s", again.Since)
	}
	failed := Compose(w, rec, Decision{State: wire.Failed}, Live{}, &again, now.Add(time.Hour))
	if failed.Since == first.Since {
		t.Error("since did not change with the state")
	}
	w.Deferred = true
	if r := Compose(w, rec, Decision{State: wire.Applied}, Live{}, nil, now); r.State != wire.Waiting || r.Reason != "LineageUnproven" {
		t.Errorf("deferred: %+v", r)
	}
}

// TestComposeHeld: a hold is reported for the reason that the hub gives, and for one that
// is documented if it gives none.
func TestComposeHeld(t *testing.T) {
	for sent, want := range map[string]string{v1alpha1.ReasonSuspended: v1alpha1.ReasonSuspended, "": v1alpha1.ReasonNotRendered} {
		w := &store.Want{Kind: store.WantHold, Reason: sent, Detail: "why"}
		if r := Compose(w, nil, Decision{}, Live{}, nil, time.Unix(0, 0)); r.State != wire.Held || r.Reason != want || r.Message != "why" {
			t.Errorf("a hold for %q is reported as %+v, want %s", sent, r, want)
		}
	}
}
