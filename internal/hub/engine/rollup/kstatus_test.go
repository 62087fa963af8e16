package rollup_test

import (
	"slices"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/hub/engine/rollup"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/states"
)

func kstatus(t rapid.TB, object []byte) status.Status {
	t.Helper()
	r, err := status.Compute(states.Decode(object))
	if err != nil {
		t.Fatalf("compute the status of %s: %v", object, err)
	}
	return r.Status
}

// TestKstatus: the status of a source by kstatus is that of all locations together, over all kinds in all states. It is
// Current if each location is Current and, of several, none has a worse health. It is Failed if any location has failed.
func TestKstatus(t *testing.T) {
	for _, k := range states.Kinds() {
		t.Run(k.Kind, func(t *testing.T) {
			t.Parallel()
			seenStatuses := seen{}
			for _, c := range k.Matrix() {
				seenStatuses.check(t, c)
				if t.Failed() {
					return
				}
			}
		})
	}
}

// seen is what kstatus has said of objects at locations, which are few.
type seen map[string]status.Status

func (s seen) statusOf(t rapid.TB, object []byte) status.Status {
	is, ok := s[string(object)]
	if !ok {
		is = kstatus(t, object)
		s[string(object)] = is
	}
	return is
}

func (s seen) check(t rapid.TB, c states.Case) {
	t.Helper()
	merged, ok := c.Merged()
	if !ok {
		if !allUnreported(c) {
			t.Errorf("%s: no status", c.Name)
		}
		return
	}
	got := kstatus(t, merged)
	current, failed, sound := true, false, true
	for i, o := range c.Objects {
		sound = sound && c.Reports[i].Sound
		if o == nil {
			continue
		}
		is := s.statusOf(t, o)
		switch health := c.Reports[i].Health; { // agents are stricter for some kinds
		case len(c.Reports) == 1: // its status is unchanged
		case health == wire.Degraded:
			is = status.FailedStatus
		case health == wire.Progressing && is == status.CurrentStatus:
			is = status.InProgressStatus
		}
		current = current && is == status.CurrentStatus
		failed = failed || is == status.FailedStatus
	}
	switch {
	case c.There && current && reportedUnevenly(c): // without it kstatus does not ask whether anybody has looked
	case c.There && current:
		if got != status.CurrentStatus {
			t.Errorf("%s: all are Current, the source is %s: %s", c.Name, got, merged)
		}
	case c.There && failed && c.Observed:
		if got != status.FailedStatus {
			t.Errorf("%s: one has Failed, the source is %s: %s", c.Name, got, merged)
		}
	case !current || !sound:
		if got == status.CurrentStatus && !c.Kind.Mute {
			t.Errorf("%s: not all are Current, the source is: %s", c.Name, merged)
		}
	}
}

// reportedUnevenly reports whether some locations report observed generations, and others do not.
func reportedUnevenly(c states.Case) bool {
	observing := 0
	for _, p := range c.Reports {
		if gjson.GetBytes(p.Status, "observedGeneration").Exists() {
			observing++
		}
	}
	return observing > 0 && observing < len(c.Reports)
}

func allUnreported(c states.Case) bool {
	return !slices.ContainsFunc(c.Reports, func(p rollup.Report) bool { return len(p.Status) > 0 })
}

// TestWithoutHealth: agents of earlier versions report neither health nor wanted numbers; the
// fields suffice as far as possible.
func TestWithoutHealth(t *testing.T) {
	for _, k := range states.Kinds() {
		switch k.Resource {
		case key.NewResource("", "pods"), key.NewResource("apps", "statefulsets"):
			continue // what they are is not all in their counters
		}
		seenStatuses := seen{}
		for i, c := range k.Matrix() {
			if i%3 != 0 { // all take long, and health adds nothing for these kinds
				continue
			}
			for i := range c.Reports {
				c.Reports[i].Health = wire.Health("")
			}
			if slices.ContainsFunc(c.Reports, wantsNone) || c.Kind.Counts && !c.Explicit {
				continue // no counter shows that nothing is missing of nothing
			}
			seenStatuses.check(t, c)
			if t.Failed() {
				break
			}
		}
	}
}

func wantsNone(p rollup.Report) bool {
	return p.Wanted != nil && p.Wanted.Replicas != nil && *p.Wanted.Replicas == 0
}

// TestLimitsOfKstatus checks the exceptions in docs/status.md.
func TestLimitsOfKstatus(t *testing.T) {
	for _, k := range states.Kinds() {
		switch {
		case k.Kind == "Service" && k.Union:
			source := []byte(`{"apiVersion":"v1","kind":"Service","spec":{"type":"LoadBalancer"}}`)
			merged, _ := k.Merged(source, []rollup.Report{k.Report(k.Object(1, "address"))})
			if got := kstatus(t, merged); got != status.InProgressStatus {
				t.Errorf("a Service without clusterIP is %s", got)
			}
		case k.Mute:
			merged, _ := k.Merged(k.Source(1, true), []rollup.Report{{Location: "berlin"}})
			if got := kstatus(t, merged); got != status.CurrentStatus {
				t.Errorf("%s that is nowhere is %s", k.Kind, got)
			}
		}
	}
}
