package hub_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// returning is a space with one Deployment whose status the location a returns.
type returning struct {
	*running
	agent *testAgent
	uid   string
}

const returnedObject = "s/apps/deployments/default/web"

func newReturning(t *testing.T, placement map[string]any, options ...func(*hub.Config)) *returning {
	t.Helper()
	r := start(t, t.TempDir(), options...)
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addPlacement("s", "p", "x", "app", placement)
	made := r.create("s", deploymentsGVR, object("apps/v1", "Deployment", "default", "web", map[string]string{"what": "app"}, nil))
	return &returning{running: r, agent: r.join("a"), uid: string(made.GetUID())}
}

// reports has the location report a status of a number of replicas and a size.
func (r *returning) reports(replicas, size int) {
	r.t.Helper()
	status := fmt.Sprintf(`{"replicas":%d,"conditions":[{"type":"XFailed","status":"True","message":%q}]}`, replicas, strings.Repeat("y", size))
	r.agent.reports(wire.ReportLine{Key: returnedObject, Report: &wire.Report{UID: r.uid, State: wire.Failed, Status: json.RawMessage(status)}})
}

func (r *returning) limit(limits map[string]any) {
	r.t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"limits": limits}})
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.space(key.Root).Resource(spacesGVR).Patch(r.t.Context(), "s", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// reasons returns the reasons in the response of `why`, and in the condition of the Placement, for an unreturned status.
func (r *returning) reasons() (why, placement string) {
	r.t.Helper()
	var w queries.Why
	r.question(&w, route.Why, "location", "a", "object", strings.TrimPrefix(returnedObject, "s/"))
	p := r.placement()
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStatusReturned); c != nil {
		if c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonStatusLeftOut {
			r.t.Fatalf("the condition is %+v", c)
		}
		placement = c.Message
	}
	if w.Place == nil {
		return "", placement
	}
	return w.Place.StatusLeftOut, placement
}

// comes waits until the source has a number of replicas in its status, and nothing is
// said to be left out.
func (r *returning) comes(replicas int) {
	r.t.Helper()
	r.eventually(func() string {
		row, _ := r.Table.Get("o/" + returnedObject)
		if !strings.Contains(string(row.Value), fmt.Sprintf(`"replicas":%d,"conditions"`, replicas)) &&
			!strings.Contains(string(row.Value), fmt.Sprintf(`"status":{"replicas":%d`, replicas)) {
			return fmt.Sprintf("the status with %d replicas has not come", replicas)
		}
		if why, placement := r.reasons(); why != "" || placement != "" {
			return fmt.Sprintf("what has come is said to be left out: %q, %q", why, placement)
		}
		return ""
	})
}

// leavesOut waits until the source has no status, and `why` and the Placement contain the reason.
func (r *returning) leavesOut(field, what string) {
	r.t.Helper()
	r.eventually(func() string {
		row, _ := r.Table.Get("o/" + returnedObject)
		if strings.Contains(string(row.Value), "orrery-status") || strings.Contains(string(row.Value), `"status":{"`) {
			return "the source has a status"
		}
		why, placement := r.reasons()
		if !strings.Contains(why, field) {
			return fmt.Sprintf("why says %q, want %q", why, field)
		}
		if !strings.Contains(placement, "apps/deployments/default/web") || !strings.Contains(placement, what) {
			return fmt.Sprintf("the Placement says %q, want %q", placement, what)
		}
		var status queries.SpaceStatus
		r.question(&status, route.Status)
		if status.Placements[0].StatusLeftOut != placement || status.Objects[0].Places[0].StatusLeftOut != why {
			return fmt.Sprintf("status says something else: %+v", status)
		}
		return ""
	})
}

// TestReturnedStatusAndLimits shows that a status that comes back counts against the
// limits of its space: one that does not fit is left out, no older one stays in its
// place, and the Placement and `why` say so until it fits.
func TestReturnedStatusAndLimits(t *testing.T) {
	t.Parallel()
	r := newReturning(t, map[string]any{"returnStatus": "Singleton"})
	r.reports(1, 10)
	r.comes(1)

	r.limit(map[string]any{"objectBytes": "4Ki"})
	r.reports(2, 8<<10)
	r.leavesOut("limited: objectBytes=4096", "objectBytes")
	r.reports(3, 10)
	r.comes(3)
	r.reports(4, 8<<10)
	r.leavesOut("limited: objectBytes=4096", "objectBytes")
	r.limit(map[string]any{"objectBytes": "16Ki"})
	r.comes(4)

	r.reports(5, 10)
	r.comes(5)
	full := r.Usage.InSpace("s").Bytes + 2<<10
	r.limit(map[string]any{"objectBytes": nil, "bytes": fmt.Sprint(full)})
	r.reports(6, 8<<10)
	r.leavesOut(fmt.Sprintf("limited: bytes=%d", full), "bytes")
	if used := r.Usage.InSpace("s").Bytes; used > full {
		t.Errorf("the space has %d bytes, %d are allowed", used, full)
	}
	// Room that others make is found when it is tried again.
	r.limit(map[string]any{"bytes": fmt.Sprint(full + 8<<10)})
	r.comes(6)

	// Nothing is said any more of an object that goes.
	r.limit(map[string]any{"bytes": nil, "objectBytes": "4Ki"})
	r.reports(7, 16<<10)
	r.leavesOut("limited: objectBytes=4096", "objectBytes")
	if err := r.space("s").Resource(deploymentsGVR).Namespace("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually(func() string {
		if n := r.LeftOut.Missed(key.Placement{Space: "s", Name: "p"}, "s"); n.Count > 0 {
			return fmt.Sprintf("left out: %+v", n)
		}
		if c := meta.FindStatusCondition(r.placement().Status.Conditions, v1alpha1.ConditionStatusReturned); c != nil {
			return c.Message
		}
		return ""
	})
}

// TestReturnedStatusTriedAgain shows that a status that was left out is written once
// there is room in the space.
func TestReturnedStatusTriedAgain(t *testing.T) {
	t.Parallel()
	r := newReturning(t, map[string]any{"returnStatus": "Singleton"})
	r.addConfigMap("large", nil, strings.Repeat("x", 16<<10))
	r.current() // the usage counts it
	r.limit(map[string]any{"bytes": fmt.Sprint(r.Usage.InSpace("s").Bytes + 1<<10)})
	r.reports(1, 8<<10)
	r.leavesOut("limited: bytes=", "bytes")
	if err := r.space("s").Resource(configMapsGVR).Namespace("default").Delete(t.Context(), "large", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.comes(1)
}

// TestReturnedStatusAndFullLog shows that a status for which the log has no room is
// left out, which is said in the same places, and comes when there is room.
func TestReturnedStatusAndFullLog(t *testing.T) {
	t.Parallel() // it waits much of the time
	// In a smaller one etcd's file leaves no room between growth and upkeep.
	r := newReturning(t, map[string]any{"returnStatus": "None"}, func(c *hub.Config) { c.Quota = 2 * smallQuota }, hurried)
	configMaps := r.space("s").Resource(configMapsGVR).Namespace("default")
	patch := func(text string) error {
		_, err := r.space("s").Resource(placementsGVR).Patch(t.Context(), "p", types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	if err := patch(`{"metadata":{"annotations":{"pad":"` + strings.Repeat("x", 1000) + `"}}}`); err != nil {
		t.Fatal(err)
	}
	r.mayFill()
	r.reports(1, 400<<10)
	n, rest := r.fill(0), 0
	r.eventually(func() string {
		for err := error(nil); err == nil; rest++ { // also what is too small for the others
			_, err = configMaps.Create(t.Context(),
				object("v1", "ConfigMap", "default", fmt.Sprint("rest-", rest), nil, map[string]any{"data": map[string]any{"k": filler(rest, 64<<10)}}), metav1.CreateOptions{})
		}
		// It gets smaller, which a full log takes unless it has yet to forget its history.
		if err := patch(`{"metadata":{"annotations":{"pad":null}},"spec":{"downsync":[{"labelSelectors":[{"matchLabels":{"what":"app"}}],"returnStatus":"Singleton"}]}}`); err != nil {
			return err.Error()
		}
		return ""
	})
	r.leavesOut("the log is out of space", v1alpha1.ReasonLogFull)
	for i := range n / 2 {
		if err := configMaps.Delete(t.Context(), fmt.Sprint("fill-", i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r.comes(1)
}
