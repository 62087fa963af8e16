package health_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/agent/health"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// assess judges an object as the observer hands it over.
func assess(t *testing.T, text string) (wire.Health, string) {
	t.Helper()
	var o ownership.Observation
	if err := o.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if len(o.Spec) > 200 {
		t.Errorf("%d bytes of the spec are observed", len(o.Spec))
	}
	return health.Assess(health.Object{
		APIVersion: gjson.Get(text, "apiVersion").String(), Kind: o.Kind, Generation: o.Metadata.Generation,
		Deleting: o.Metadata.DeletionTimestamp != "", Spec: o.Spec, Status: o.Status,
	})
}

func TestOf(t *testing.T) {
	long := `"template":{"spec":{"containers":[{"name":"c","args":["` + strings.Repeat("x", 1000) + `"]}]}}`
	deployment := func(spec, status string) string {
		return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"generation":2},"spec":{` + spec + `,` + long + `},"status":{` + status + `}}`
	}
	const ready = `"observedGeneration":2,"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3,` +
		`"conditions":[{"type":"Available","status":"True"}]`
	job := func(spec, status string) string {
		return `{"apiVersion":"batch/v1","kind":"Job","metadata":{},"spec":{` + spec + `},"status":{"startTime":"2026-01-01T00:00:00Z",` + status + `}}`
	}
	set := func(replicas int, status string) string {
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{},"spec":{"replicas":%d,"updateStrategy":{"type":"OnDelete"}},"status":{%s}}`, replicas, status)
	}
	for name, c := range map[string]struct {
		object string
		want   wire.Health
		detail string
	}{
		"all are ready":      {deployment(`"replicas":3`, ready), wire.Healthy, ""},
		"one of four":        {deployment(`"replicas":4`, ready), wire.Progressing, "3/4"},
		"no status yet":      {deployment(`"replicas":3`, ``), wire.Progressing, "0/3"},
		"an old generation":  {deployment(`"replicas":3`, strings.Replace(ready, "2", "1", 1)), wire.Progressing, "generation"},
		"the deadline is up": {deployment(`"replicas":3`, `"observedGeneration":2,"replicas":3,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"no"}]`), wire.Degraded, "deadline"},
		"being deleted":      {`{"apiVersion":"v1","kind":"Service","metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`, wire.Progressing, "deletion"},
		"nothing known of":   {`{"apiVersion":"v1","kind":"Namespace","metadata":{},"spec":{},"status":{"phase":"Active"}}`, wire.Healthy, ""},
		"custom, ready":      {`{"apiVersion":"a.b/v1","kind":"C","metadata":{"generation":1},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, wire.Healthy, ""},
		"custom, not ready":  {`{"apiVersion":"a.b/v1","kind":"C","metadata":{"generation":1},"status":{"conditions":[{"type":"Ready","status":"False","message":"it\nwaits"}]}}`, wire.Progressing, "it waits"},
		"custom, stalled":    {`{"apiVersion":"a.b/v1","kind":"C","metadata":{"generation":1},"status":{"conditions":[{"type":"Stalled","status":"True","message":"no way"}]}}`, wire.Degraded, "no way"},
		"custom, no status":  {`{"apiVersion":"a.b/v1","kind":"C","metadata":{"generation":1},"spec":{"x":1}}`, wire.Healthy, ""},
		"not conditions":     {`{"apiVersion":"a.b/v1","kind":"C","metadata":{},"status":{"conditions":"none"}}`, wire.HealthUnknown, "slice"},
		"no object":          {`{"apiVersion":"a.b/v1","kind":"C","metadata":{},"status":"fine"}`, wire.HealthUnknown, ""},
		"not a pod's":        {`{"apiVersion":"v1","kind":"Pod","metadata":{},"status":{"phase":"Running","containerStatuses":["a"]}}`, wire.HealthUnknown, "expect"},
		"unschedulable":      {`{"apiVersion":"v1","kind":"Pod","metadata":{},"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]}}`, wire.Degraded, "scheduled"},
		"a failed job":       {`{"apiVersion":"batch/v1","kind":"Job","metadata":{},"status":{"conditions":[{"type":"Failed","status":"True"}]}}`, wire.Degraded, "Failed"},
		"a job that runs":    {job(`"parallelism":1`, `"active":1,"ready":1`), wire.Healthy, ""},
		"a job that waits":   {job(`"parallelism":1`, `"active":1,"ready":0`), wire.Progressing, "0 of 1 active Pods are ready"},
		"... without ready":  {job(``, `"active":1`), wire.Progressing, "0 of 1 active Pods are ready"},
		"one Pod of a job":   {job(`"parallelism":3`, `"active":3,"ready":1`), wire.Progressing, "1 of 3 active Pods are ready"},
		"a job without Pods": {job(`"parallelism":2`, `"ready":0,"failed":1`), wire.Progressing, "no Pod is active"},
		"a job that stands":  {job(`"parallelism":0`, `"ready":0`), wire.Healthy, ""},
		"a job that is done": {job(`"parallelism":1`, `"ready":0,"succeeded":1,"conditions":[{"type":"Complete","status":"True"}]`), wire.Healthy, ""},
		"set, on delete":     {set(3, `"replicas":3,"readyReplicas":3`), wire.Healthy, ""},
		"... without Pods":   {set(3, ``), wire.Progressing, "Ready: 0/3"},
		"... one not ready":  {set(3, `"replicas":3,"readyReplicas":2`), wire.Progressing, "Ready: 2/3"},
		"... of none":        {set(0, `"replicas":0`), wire.Healthy, ""},
		"a failed pod":       {`{"apiVersion":"v1","kind":"Pod","metadata":{},"status":{"phase":"Failed","reason":"Evicted","message":"disk"}}`, wire.Degraded, "Failed: Evicted: disk"},
		"... without reason": {`{"apiVersion":"v1","kind":"Pod","metadata":{},"status":{"phase":"Failed"}}`, wire.Degraded, "the Pod has failed"},
		"a pod that ended":   {`{"apiVersion":"v1","kind":"Pod","metadata":{},"status":{"phase":"Succeeded"}}`, wire.Healthy, ""},
		"custom, like a job": {`{"apiVersion":"a.b/v1","kind":"Job","metadata":{},"status":{"active":1}}`, wire.Healthy, ""},
		"a job, of no form":  {job(``, `"active":"many"`), wire.Progressing, "no Pod is active"},
	} {
		t.Run(name, func(t *testing.T) {
			is, detail := assess(t, c.object)
			if is != c.want || !strings.Contains(detail, c.detail) || is == wire.Healthy && detail != "" {
				t.Errorf("%s %q, want %s %q", is, detail, c.want, c.detail)
			}
		})
	}
}

func TestWanted(t *testing.T) {
	three, one, zero := int64(3), int64(1), int64(0)
	for _, c := range []struct {
		group, resource, spec string
		want                  *wire.Wanted
	}{
		{"apps", "deployments", `{"replicas":3,"paused":true}`, &wire.Wanted{Replicas: &three}},
		{"apps", "deployments", `{}`, nil},
		{"apps", "deployments", ``, nil},
		{"apps", "statefulsets", `{"replicas":3,"updateStrategy":{"rollingUpdate":{"partition":0}}}`, &wire.Wanted{Replicas: &three, Partition: &zero}},
		{"batch", "jobs", `{"completions":3,"parallelism":1}`, &wire.Wanted{Completions: &three, Parallelism: &one}},
		{"a.b", "things", `{"replicas":1,"completions":3}`, &wire.Wanted{Replicas: &one}},
		{"a.b", "things", `{"replicas":"three"}`, nil},
	} {
		got := health.Wanted(key.NewResource(c.group, c.resource), []byte(c.spec))
		same := func(a, b *int64) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
		if (got == nil) != (c.want == nil) ||
			got != nil && !(same(got.Replicas, c.want.Replicas) && same(got.Partition, c.want.Partition) &&
				same(got.Completions, c.want.Completions) && same(got.Parallelism, c.want.Parallelism)) {
			t.Errorf("%s %s: %+v, want %+v", c.resource, c.spec, got, c.want)
		}
	}
}
