package argo

import (
	"slices"
	"testing"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"k8s.io/kubectl/pkg/polymorphichelpers"

	"orrery.dev/orrery/internal/hub/engine/rollup"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/states"
)

// What Argo CD's health and kubectl rollout status say of a source with a merged status is
// what they say of all locations together, over all kinds, in all states.
func TestRollup(t *testing.T) {
	for _, k := range states.Kinds() {
		t.Run(k.Kind, func(t *testing.T) {
			t.Parallel()
			for _, c := range k.Matrix() {
				merged, ok := c.Merged()
				if !ok {
					continue // nothing is known of it, and its kind has no rules
				}
				checkHealth(t, c, merged)
				checkRollout(t, c, merged)
				if t.Failed() {
					return
				}
			}
		})
	}
}

func checkHealth(t *testing.T, c states.Case, merged []byte) {
	t.Helper()
	got, healthy, degraded := healthOf(t, merged), c.There, false
	for i, o := range c.Objects {
		if o == nil {
			continue
		}
		is := healthOf(t, o)
		// kstatus knows more reasons to wait, which hold a source back as a whole.
		healthy = healthy && is == health.HealthStatusHealthy && c.Reports[i].Health == wire.Healthy
		degraded = degraded || is == health.HealthStatusDegraded
		if is != health.HealthStatusHealthy && got == health.HealthStatusHealthy && !c.Kind.Union {
			t.Errorf("%s: %s is %s, the source Healthy: %s", c.Name, c.Reports[i].Location, is, merged)
		}
	}
	switch {
	case healthy && got != health.HealthStatusHealthy:
		t.Errorf("%s: all are Healthy, the source %s: %s", c.Name, got, merged)
	case slices.ContainsFunc(c.Reports, unsound) && got == health.HealthStatusHealthy && !ignoresStatus(c):
		t.Errorf("%s: not all are there, the source is Healthy: %s", c.Name, merged)
	case degraded && c.There && c.Observed && got != health.HealthStatusDegraded:
		t.Errorf("%s: one is Degraded, the source %s: %s", c.Name, got, merged)
	}
}

func unsound(p rollup.Report) bool { return !p.Sound }

func healthOf(t *testing.T, object []byte) health.HealthStatusCode {
	t.Helper()
	is, err := health.GetResourceHealth(states.Decode(object), nil)
	if err != nil {
		t.Fatalf("assess the health of %s: %v", object, err)
	}
	if is == nil { // Argo CD has no rule for the kind
		return health.HealthStatusHealthy
	}
	return is.Status
}

// ignoresStatus reports whether the status of a kind never makes Argo CD consider an object
// incomplete.
func ignoresStatus(c states.Case) bool {
	is := health.GetHealthCheckFunc(states.Decode(c.Source).GroupVersionKind())
	return is == nil || c.Kind.Union || c.Kind.Kind == "Service"
}

func checkRollout(t *testing.T, c states.Case, merged []byte) {
	t.Helper()
	viewer, err := polymorphichelpers.StatusViewerFor(states.Decode(merged).GroupVersionKind().GroupKind())
	if err != nil || c.Kind.Counts && !c.Explicit && c.Kind.Kind == "StatefulSet" {
		return // kubectl does not check the kind, or requires the strategy, which the source omits
	}
	rollout := func(object []byte) (done bool, err error) {
		_, done, err = viewer.Status(states.Decode(object), 0)
		return done, err
	}
	got, gotErr := rollout(merged)
	all, failed := c.There, false
	for i, o := range c.Objects {
		if o == nil {
			continue
		}
		done, err := rollout(o)
		all = all && done && err == nil && c.Reports[i].Health == wire.Healthy
		failed = failed || err != nil
		if got && gotErr == nil && !done {
			t.Errorf("%s: %s is not done, the source is: %s", c.Name, c.Reports[i].Location, merged)
		}
	}
	switch {
	case all && (!got || gotErr != nil):
		t.Errorf("%s: all are done, the source is not (%v): %s", c.Name, gotErr, merged)
	case !c.There && got:
		t.Errorf("%s: not all are there, the source is done: %s", c.Name, merged)
	case failed && c.There && c.Observed && gotErr == nil:
		t.Errorf("%s: one has failed, the source has not: %s", c.Name, merged)
	}
}

// TestLimitsOfStatus checks the limits that docs/status.md lists for Argo CD and kubectl.
func TestLimitsOfStatus(t *testing.T) {
	merged := func(k states.Kind, spec string, all ...string) []byte {
		var reports []rollup.Report
		for _, state := range all {
			reports = append(reports, k.Report(k.Object(1, state)))
		}
		k.Spec = func(int64, bool) string { return spec }
		out, _ := k.Merged(k.Source(1, true), reports)
		return out
	}
	for _, k := range states.Kinds() {
		switch {
		case k.Kind == "Pod":
			if got := healthOf(t, merged(k, `{}`, "ready")); got != health.HealthStatusUnknown {
				t.Errorf("a Pod without restartPolicy is %s", got)
			}
		case k.Kind == "StatefulSet", k.Kind == "DaemonSet":
			object := states.Decode(merged(k, `{}`, "done"))
			viewer, err := polymorphichelpers.StatusViewerFor(object.GroupVersionKind().GroupKind())
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := viewer.Status(object, 0); err == nil {
				t.Errorf("the rollout of a %s without a strategy has a status", k.Kind)
			}
		case k.Union:
			if got := healthOf(t, merged(k, k.Spec(1, true), "address", "no address")); got != health.HealthStatusHealthy {
				t.Errorf("a %s with one address is %s", k.Kind, got)
			}
		}
	}
}
