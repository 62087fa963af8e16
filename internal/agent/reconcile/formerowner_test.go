package reconcile

import (
	"strings"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestConflictNamesTheOwner: a conflict with an object of another location has its label, by which that location's
// objects are taken over. A copied label is not enough.
func TestConflictNamesTheOwner(t *testing.T) {
	self := ownership.NewOwner("berlin", "11111111-0000-0000-0000-000000000000")
	former := ownership.NewOwner("berlin", "22222222-0000-0000-0000-000000000000")
	current := &turn{
		id:   key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "n", Name: "x"},
		view: worklist.View{As: self, Kind: "ConfigMap"},
	}
	object := func(owner ownership.Owner, manager string) *ownership.Meta {
		return &ownership.Meta{
			Name: "x", Namespace: "n", UID: "u",
			Labels: map[string]string{v1alpha1.LocationLabel: string(owner), v1alpha1.SpaceLabel: "s"},
			Annotations: map[string]string{
				v1alpha1.SourceNamespaceAnnotation: "n", v1alpha1.SourceNameAnnotation: "x",
				v1alpha1.SourceKindAnnotation: "ConfigMap", v1alpha1.SourceUIDAnnotation: "v",
			},
			ManagedFields: []ownership.ManagedFields{{Manager: manager, Operation: "Apply"}},
		}
	}
	for name, c := range map[string]struct {
		object *ownership.Meta
		want   ownership.Owner
	}{
		"former location": {object(former, former.Manager()), former},
		"our own":         {object(self, self.Manager()), ""},
		"copied label":    {object(former, "kubectl"), ""},
		"no label":        {&ownership.Meta{Name: "x", Namespace: "n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if current.otherOwner = otherOwner(current, c.object); current.otherOwner != c.want {
				t.Fatalf("the owner is %q, want %q", current.otherOwner, c.want)
			}
			conflict := outcome{Decision: decide.Decision{State: wire.InConflict, Reason: v1alpha1.ReasonExists, Message: "m"}}
			if got := namesOwner(current, conflict).Message; strings.Contains(got, "--takes-over "+string(former)) != (c.want != "") {
				t.Errorf("the message is %q", got)
			}
			applied := outcome{Decision: decide.Decision{State: wire.Applied, Message: "m"}}
			if got := namesOwner(current, applied).Message; got != "m" {
				t.Errorf("the message of an applied object is %q", got)
			}
		})
	}
}

// TestContestedNamesTheRemedy: the report of a contested object names the release of values.
func TestContestedNamesTheRemedy(t *testing.T) {
	current := &turn{view: worklist.View{Contested: 1}}
	got := concluded{current, outcome{Decision: decide.Decision{State: wire.Applied}}}.qualified()
	if got.Reason != v1alpha1.ReasonContested || !strings.Contains(got.Message, "release them by a Customizer") {
		t.Errorf("%s: %s", got.Reason, got.Message)
	}
}
