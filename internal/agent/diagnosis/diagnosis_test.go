package diagnosis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// meta returns the metadata of an object; owner is the UID of its controller, or empty.
func meta(name, uid, owner, more string) string {
	text := fmt.Sprintf(`"metadata":{"name":%q,"namespace":"shop","uid":%q`, name, uid)
	if owner != "" {
		text += fmt.Sprintf(`,"ownerReferences":[{"apiVersion":"v1","kind":"Owner","name":"o","uid":%q,"controller":true}]`, owner)
	}
	return text + more + "}"
}

func pod(name, owner, status string) string {
	return fmt.Sprintf(`{"kind":"Pod",%s,"spec":{"volumes":[{"name":"d","persistentVolumeClaim":{"claimName":"data"}}]},"status":{%s}}`, meta(name, "pod-"+name, owner, ""), status)
}

// createdPod returns a running Pod of the object that was created some time ago.
func createdPod(name string, age time.Duration) string {
	created := fmt.Sprintf(`,"creationTimestamp":%q`, now.Add(-age).Format(time.RFC3339))
	return fmt.Sprintf(`{"kind":"Pod",%s,"status":{"phase":"Running"}}`, meta(name, "pod-"+name, "uid", created))
}

func container(state, more string) string {
	return fmt.Sprintf(`"phase":"Pending","containerStatuses":[{"name":"app","image":"nosuch:1","ready":false,"state":{%s}%s}]`, state, more)
}

func waiting(reason, message string) string {
	return fmt.Sprintf(`"waiting":{"reason":%q,"message":%q}`, reason, message)
}

func event(uid, reason, message string, age time.Duration) string {
	return fmt.Sprintf(`{"kind":"Event","metadata":{"name":"e"},"involvedObject":{"uid":%q},"reason":%q,"message":%q,"lastTimestamp":%q}`,
		uid, reason, message, now.Add(-age).Format(time.RFC3339))
}

const (
	unscheduled = `"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/2 nodes are available: 2 Insufficient cpu."}]`
	crashed     = `,"restartCount":5,"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}`
	quotaWords  = `pods \"web-2-x7k2p\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=0, limited: pods=0`
)

// sample is evidence as text.
type sample struct {
	resource                            key.Resource
	object                              string
	replicaSets, pods, claims, evidence []string
}

func (s sample) read(t *testing.T) *Evidence {
	t.Helper()
	object := s.object
	if object == "" {
		object = `{"kind":"Deployment",` + meta("web", "uid", "", "") + `}`
	}
	if s.resource == (key.Resource{}) {
		s.resource = Deployments
	}
	o, err := ParseObject(s.resource, object)
	if err != nil {
		t.Fatal(err)
	}
	e := &Evidence{Object: o, Now: now}
	for _, one := range []struct {
		texts []string
		add   func(string)
	}{{s.replicaSets, e.AddReplicaSet}, {s.pods, e.AddPod}, {s.claims, e.AddClaim}, {s.evidence, e.AddEvent}} {
		for _, text := range one.texts {
			one.add(text)
		}
	}
	return e
}

func replicaSet(name, revision, status string) string {
	return fmt.Sprintf(`{"kind":"ReplicaSet",%s,"status":{%s}}`, meta(name, "set-"+name, "uid", `,"annotations":{"deployment.kubernetes.io/revision":"`+revision+`"}`), status)
}

func TestDiagnose(t *testing.T) {
	sets := []string{replicaSet("web-1", "1", ""), replicaSet("web-2", "2", "")}
	ofPods := func(pods ...string) sample { return sample{replicaSets: sets, pods: pods} }
	for name, c := range map[string]struct {
		sample
		want  string
		final bool
	}{
		"nothing":                  {sample: ofPods(pod("a", "set-web-2", `"phase":"Running"`))},
		"of another object":        {sample: ofPods(pod("a", "set-other", container(waiting("ErrImagePull", ""), "")))},
		"image":                    {ofPods(pod("a", "set-web-2", container(waiting("ErrImagePull", "not found"), ""))), `Pod a: ImagePullBackOff: container app, image "nosuch:1": not found`, false},
		"image, between two pulls": {ofPods(pod("a", "set-web-2", container(waiting("ImagePullBackOff", `Back-off pulling image "nosuch:1": ErrImagePull: not found`), ""))), `Pod a: ImagePullBackOff: container app, image "nosuch:1": not found`, false},
		"image, older kubelet":     {ofPods(pod("a", "set-web-2", container(waiting("ImagePullBackOff", `Back-off pulling image "nosuch:1"`), ""))), `Pod a: ImagePullBackOff: container app, image "nosuch:1"`, false},
		"image name":               {ofPods(pod("a", "set-web-2", container(waiting("InvalidImageName", "x"), ""))), `Pod a: InvalidImageName: container app, image "nosuch:1"`, true},
		"crash":                    {ofPods(pod("a", "set-web-2", container(waiting("CrashLoopBackOff", "back-off 5m0s"), crashed))), `Pod a: CrashLoopBackOff: container app, exit code 137 (OOMKilled), restarts: 5`, false},
		"crash, running again":     {ofPods(pod("a", "set-web-2", container(`"running":{}`, crashed))), `Pod a: CrashLoopBackOff: container app, exit code 137 (OOMKilled), restarts: 5`, false},
		"crash, first end":         {ofPods(pod("a", "set-web-2", container(`"terminated":{"exitCode":1,"reason":"Error"}`, ""))), `Pod a: CrashLoopBackOff: container app, exit code 1, restarts: 0`, false},
		"configuration":            {ofPods(pod("a", "set-web-2", container(waiting("CreateContainerConfigError", `configmap "c" not found`), ""))), `Pod a: CreateContainerConfigError: container app: configmap "c" not found`, false},
		"unschedulable":            {ofPods(pod("a", "set-web-2", unscheduled)), `Pod a: Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.`, false},
		"the worst, by name":       {ofPods(pod("c", "set-web-2", unscheduled), pod("b", "set-web-2", container(waiting("ErrImagePull", ""), "")), pod("a", "set-web-2", container(waiting("ErrImagePull", ""), ""))), `Pod a: ImagePullBackOff: container app, image "nosuch:1"`, false},
		"the newest revision":      {ofPods(pod("a", "set-web-1", container(waiting("ErrImagePull", ""), "")), pod("b", "set-web-2", unscheduled)), `Pod b: Unschedulable`, false},
		"an earlier revision":      {ofPods(pod("a", "set-web-1", container(waiting("ErrImagePull", ""), "")), pod("b", "set-web-2", `"phase":"Running"`)), `Pod a: ImagePullBackOff`, false},
		"creating":                 {sample: ofPods(pod("a", "set-web-2", container(waiting("ContainerCreating", ""), "")))},
		"creating, with an event": {
			sample{replicaSets: sets, pods: []string{pod("a", "set-web-2", container(waiting("ContainerCreating", ""), ""))}, evidence: []string{event("pod-a", "FailedMount", `secret "s" not found`, time.Minute)}},
			`Pod a: FailedMount: secret "s" not found`, false,
		},
		"not ready": {sample: ofPods(pod("a", "set-web-2", container(`"running":{}`, "")))},
		"probe": {
			sample{replicaSets: sets, pods: []string{pod("a", "set-web-2", container(`"running":{}`, ""))}, evidence: []string{
				event("pod-a", "Unhealthy", "Readiness probe failed: old", time.Minute), event("pod-a", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 500", 0),
			}}, `Pod a: Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 500`, false,
		},
		"an old event": {sample: sample{replicaSets: sets, pods: []string{pod("a", "set-web-2", container(`"running":{}`, ""))}, evidence: []string{event("pod-a", "Unhealthy", "x", time.Hour)}}},
		"quota": {
			sample{replicaSets: []string{replicaSet("web-2", "2", `"conditions":[{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":"`+quotaWords+`"}]`)}},
			`ReplicaSet web-2: FailedCreate: pods "web-2-*" is forbidden: exceeded quota: few`, false,
		},
		"admission, by an event": {
			sample{statefulSets, `{"kind":"StatefulSet",` + meta("db", "uid", "", "") + `}`, nil, nil, nil, []string{event("uid", "FailedCreate", `create Pod db-0 in StatefulSet db failed error: admission webhook "w" denied the request`, 0)}},
			`FailedCreate: create Pod db-0 in StatefulSet db failed error: admission webhook "w" denied the request`, false,
		},
		"ReplicaSet that can create Pods again": {sample: sample{
			replicaSets: []string{replicaSet("web-2", "2", "")}, evidence: []string{event("set-web-2", "FailedCreate", quotaWords, time.Minute)},
		}},
		"ReplicaSet of its own that can create Pods again": {sample: sample{
			resource: ReplicaSets, object: `{"kind":"ReplicaSet",` + meta("web", "uid", "", "") + `}`, evidence: []string{event("uid", "FailedCreate", quotaWords, time.Minute)},
		}},
		"quota for another ReplicaSet": {
			sample{
				object:      `{"kind":"Deployment",` + meta("web", "uid", "", "") + `,"status":{"conditions":[{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":"` + quotaWords + `"}]}}`,
				replicaSets: sets,
			}, `FailedCreate: pods "web-2-*" is forbidden: exceeded quota: few`, false,
		},
		"admission, and a Pod since": {sample: sample{
			resource: statefulSets, object: `{"kind":"StatefulSet",` + meta("db", "uid", "", "") + `}`, pods: []string{createdPod("db-0", time.Second)},
			evidence: []string{event("uid", "FailedCreate", `create Pod db-0 in StatefulSet db failed error: denied`, time.Minute)},
		}},
		"admission, and a Pod before": {
			sample{
				resource: statefulSets, object: `{"kind":"StatefulSet",` + meta("db", "uid", "", "") + `}`, pods: []string{createdPod("db-0", time.Hour)},
				evidence: []string{event("uid", "FailedCreate", `create Pod db-1 in StatefulSet db failed error: denied`, time.Minute)},
			}, `FailedCreate: create Pod db-1 in StatefulSet db failed error: denied`, false,
		},
		"claim of a Pod": {
			sample{
				replicaSets: sets, pods: []string{pod("a", "set-web-2", unscheduled)},
				claims:   []string{`{"kind":"PersistentVolumeClaim",` + meta("data", "claim", "", "") + `,"status":{"phase":"Pending"}}`},
				evidence: []string{event("claim", "ProvisioningFailed", `storageclass.storage.k8s.io "none" not found`, 0)},
			}, `PersistentVolumeClaim data: ProvisioningFailed: storageclass.storage.k8s.io "none" not found`, false,
		},
		"claim that waits for its Pod": {
			sample{
				replicaSets: sets, pods: []string{pod("a", "set-web-2", unscheduled)},
				claims:   []string{`{"kind":"PersistentVolumeClaim",` + meta("data", "claim", "", "") + `,"status":{"phase":"Pending"}}`},
				evidence: []string{event("claim", "WaitForFirstConsumer", `waiting for first consumer`, 0)},
			}, `Pod a: Unschedulable`, false,
		},
		"claim": {
			sample{resource: Claims, object: `{"kind":"PersistentVolumeClaim",` + meta("data", "uid", "", "") + `}`,
				claims:   []string{`{"kind":"PersistentVolumeClaim",` + meta("data", "uid", "", "") + `,"status":{"phase":"Pending"}}`},
				evidence: []string{event("uid", "WaitForFirstConsumer", `waiting for first consumer`, 0)}},
			`WaitForFirstConsumer: waiting for first consumer`, false,
		},
		"failed Pod of a Job": {
			sample{resource: jobs, object: `{"kind":"Job",` + meta("once", "uid", "", "") + `}`, pods: []string{pod("once-1", "uid", `"phase":"Failed","containerStatuses":[{"name":"app","state":{"terminated":{"exitCode":2,"reason":"Error"}}}]`)}},
			`Pod once-1: Error: container app, exit code 2`, false,
		},
		"evicted":       {ofPods(pod("a", "set-web-2", `"phase":"Failed","reason":"Evicted","message":"disk"`)), `Pod a: Evicted: disk`, false},
		"being deleted": {sample: ofPods(strings.Replace(pod("a", "set-web-2", unscheduled), `"name":"a"`, `"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"`, 1))},
		"one line": {
			ofPods(pod("a", "set-web-2", container(waiting("ErrImagePull", strings.Repeat("long\nwords ", 100)), ""))), `Pod a: ImagePullBackOff: container app, image "nosuch:1": long words long words`, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := Diagnose(c.read(t))
			if ok != (c.want != "") || !strings.HasPrefix(got.Text, c.want) || got.Final != c.final || len(got.Text) > MaxText || strings.Contains(got.Text, "\n") {
				t.Errorf("%t %q %t, want %q %t", ok, got.Text, got.Final, c.want, c.final)
			}
		})
	}
}

// TestMissing checks which claims and events are read: few, and only those that may explain something.
func TestMissing(t *testing.T) {
	sets := []string{replicaSet("web-2", "2", "")}
	for name, c := range map[string]struct {
		sample
		claims   []string
		subjects []types.UID
	}{
		"no Pod":        {sample{replicaSets: sets}, nil, nil},
		"image":         {sample{replicaSets: sets, pods: []string{pod("a", "set-web-2", container(waiting("ErrImagePull", ""), ""))}}, nil, nil},
		"not ready":     {sample{replicaSets: sets, pods: []string{pod("a", "set-web-2", container(`"running":{}`, ""))}}, nil, []types.UID{"pod-a"}},
		"unschedulable": {sample{replicaSets: sets, pods: []string{pod("a", "set-web-2", unscheduled), pod("b", "set-web-2", unscheduled)}}, []string{"data"}, nil},
		"StatefulSet":   {sample{resource: statefulSets}, nil, []types.UID{"uid"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := c.read(t)
			if got := MissingClaims(e); fmt.Sprint(got) != fmt.Sprint(c.claims) {
				t.Errorf("claims %v, want %v", got, c.claims)
			}
			if got := EventSubjects(e); fmt.Sprint(got) != fmt.Sprint(c.subjects) {
				t.Errorf("events of %v, want %v", got, c.subjects)
			}
		})
	}
}

func TestIsNeeded(t *testing.T) {
	for _, c := range []struct {
		resource key.Resource
		health   wire.Health
		want     bool
	}{
		{Deployments, wire.Progressing, true},
		{Deployments, wire.Degraded, true},
		{Deployments, wire.Healthy, false},
		{Deployments, wire.HealthUnknown, false},
		{key.NewResource("", "services"), wire.Progressing, false},
		{jobs, wire.Progressing, true},
		{jobs, wire.Healthy, false},
	} {
		if got := IsNeeded(c.resource, c.health); got != c.want {
			t.Errorf("%s %s: %t", c.resource, c.health, got)
		}
	}
}

func TestObject(t *testing.T) {
	read := func(r key.Resource, spec string) *Object {
		t.Helper()
		o, err := ParseObject(r, `{"kind":"K",`+meta("o", "uid", "", "")+`,"spec":`+spec+`}`)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	o := read(Deployments, `{"progressDeadlineSeconds":60,"selector":{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"tier","operator":"In","values":["a","b"]}]}}`)
	if o.Labels() != "app=web,tier in (a,b)" || o.Deadline() != time.Minute {
		t.Errorf("%q %s", o.Labels(), o.Deadline())
	}
	if o := read(jobs, `{}`); o.Labels() != "" || o.Deadline() != 0 {
		t.Errorf("a Job: %q %s", o.Labels(), o.Deadline())
	}
	if o := read(Claims, `{"selector":{"matchLabels":{"volume":"x"}}}`); o.Labels() != "" || o.Deadline() != defaultDeadline {
		t.Errorf("a claim: %q %s", o.Labels(), o.Deadline())
	}
	if _, err := ParseObject(Deployments, `{"spec":7}`); err == nil {
		t.Error("an object of another form is accepted")
	}
}
