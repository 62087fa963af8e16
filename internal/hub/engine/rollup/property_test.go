package rollup_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/hub/engine/rollup"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
	"orrery.dev/orrery/test/support/states"
)

// Any numbers that a workload can have, at any number of locations that want any number.
func TestRandomWorkloads(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		c := drawCase(t)
		seen{}.check(t, c)
		merged, _ := c.Merged()
		status := gjson.GetBytes(merged, "status")
		if c.Kind.Kind == "Deployment" { // what kubectl wait --for=condition=Available asks
			const is = `conditions.#(type=="Available").status`
			everywhere := !slices.ContainsFunc(c.Reports, func(p rollup.Report) bool {
				return !p.Sound || gjson.GetBytes(p.Status, is).Str != "True"
			})
			if got := status.Get(is).Str == "True"; got != everywhere {
				t.Errorf("Available is %v, at all locations %v: %s", got, everywhere, merged)
			}
		}
		if !c.Kind.Counts {
			return
		}
		sourceNumber := int64(1)
		if v := gjson.GetBytes(c.Source, "spec.replicas"); v.Exists() {
			sourceNumber = v.Int()
		}
		all := status.Get("replicas").Int()
		for _, field := range []string{"updatedReplicas", "readyReplicas", "availableReplicas", "fullyLabeledReplicas"} {
			if n := status.Get(field).Int(); n > sourceNumber || n > all {
				t.Errorf("%s: %d of %d, of which %d are there: %s", field, n, sourceNumber, all, merged)
			}
		}
		ready := sourceNumber
		for _, p := range c.Reports {
			want, have := *p.Wanted.Replicas, gjson.GetBytes(p.Status, "readyReplicas").Int()
			if !p.Sound {
				ready = 0
			} else if want > 0 {
				ready = min(ready, sourceNumber*have/want)
			}
		}
		if got := status.Get("readyReplicas").Int(); got != ready {
			t.Errorf("%d are ready, want %d: %s", got, ready, merged)
		}
	})
}

// drawCase draws a workload with counters, as its controller could write them.
func drawCase(t *rapid.T) states.Case {
	kinds := states.Kinds()
	k := kinds[rapid.IntRange(0, 4).Draw(t, "kind")] // workloads come first
	number := func(most int64, label string) int64 { return rapid.Int64Range(0, most).Draw(t, label) }
	sourceNumber, explicit := number(6, "asked"), rapid.Bool().Draw(t, "explicit")
	if !explicit {
		sourceNumber = 1
	}
	if k.Kind == "StatefulSet" && rapid.Bool().Draw(t, "partitioned") {
		spec := func(n int64) string {
			return fmt.Sprintf(`{"replicas":%d,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":%d}}}`, n, number(6, "partition"))
		}
		k.Spec, k.LiveSpec = func(n int64, _ bool) string { return spec(n) }, spec
		explicit = true
	}
	c := states.Case{Kind: k, Source: k.Source(sourceNumber, explicit), Explicit: explicit, There: true, Observed: true}
	for i := range rapid.IntRange(1, 4).Draw(t, "locations") {
		want := number(6, "want")
		object := k.With(want, drawStatus(t, k.Kind, want))
		p := k.Report(object)
		p.Location = key.Location(fmt.Sprintf("l%d", i))
		if rapid.IntRange(0, 5).Draw(t, "is sound") == 0 {
			p.Sound, object, c.There = false, nil, false
		}
		observed := gjson.GetBytes(object, "status.observedGeneration")
		c.Observed = c.Observed && observed.Int() == states.Live
		c.Objects, c.Reports = append(c.Objects, object), append(c.Reports, p)
	}
	return c
}

func drawStatus(t *rapid.T, kind string, want int64) string {
	upTo := func(most int64, label string) int64 {
		if rapid.Bool().Draw(t, label+" all") {
			return most
		}
		return rapid.Int64Range(0, most).Draw(t, label)
	}
	is := func(label string) string {
		return map[bool]string{true: "True", false: "False"}[rapid.Bool().Draw(t, label)]
	}
	generation := states.Live - int(rapid.Int64Range(0, 9).Draw(t, "generation")/9)
	if kind == "DaemonSet" {
		desired := upTo(7, "desired")
		return fmt.Sprintf(`{"observedGeneration":%d,"desiredNumberScheduled":%d,"currentNumberScheduled":%d,"updatedNumberScheduled":%d,"numberReady":%d,"numberAvailable":%d,"numberMisscheduled":0}`,
			generation, desired, upTo(desired, "current"), upTo(desired, "updated"), upTo(desired, "ready"), upTo(desired, "available"))
	}
	all := want
	if rapid.Bool().Draw(t, "not all") {
		all = rapid.Int64Range(0, want+2).Draw(t, "all")
	}
	updated, ready := upTo(all, "updated"), upTo(all, "ready")
	available := upTo(ready, "available")
	status := fmt.Sprintf(`{"observedGeneration":%d,"replicas":%d,"updatedReplicas":%d,"readyReplicas":%d,"availableReplicas":%d`, generation, all, updated, ready, available)
	if kind == "ReplicaSet" {
		status = strings.Replace(status, `"updatedReplicas"`, `"x"`, 1)
	}
	switch kind {
	case "Deployment":
		progressing := rapid.SampledFrom([]string{"True NewReplicaSetAvailable", "True ReplicaSetUpdated", "False ProgressDeadlineExceeded", "Unknown DeploymentPaused"}).Draw(t, "progressing")
		value, reason, _ := strings.Cut(progressing, " ")
		status += fmt.Sprintf(`,"unavailableReplicas":%d,"conditions":[{"type":"Available","status":%q},{"type":"Progressing","status":%q,"reason":%q}]`,
			max(want-available, 0), is("available"), value, reason)
	case "ReplicaSet":
		status += fmt.Sprintf(`,"fullyLabeledReplicas":%d,"conditions":[{"type":"ReplicaFailure","status":%q}]`, upTo(all, "labeled"), is("failure"))
	case "StatefulSet":
		from, to := "a", "a"
		if updated < all {
			to = "b"
		}
		status += fmt.Sprintf(`,"currentReplicas":%d,"currentRevision":%q,"updateRevision":%q`, upTo(all, "current"), from, to)
	}
	return status + "}"
}

// TestStatusesAreOfTheirType: the merged status does not depend on the order of the locations, and
// has the form of the kind's type, so that it does not change when it is decoded.
func TestStatusesAreOfTheirType(t *testing.T) {
	types := map[string]any{
		"Deployment": &appsv1.DeploymentStatus{}, "ReplicaSet": &appsv1.ReplicaSetStatus{}, "StatefulSet": &appsv1.StatefulSetStatus{},
		"DaemonSet": &appsv1.DaemonSetStatus{}, "Job": &batchv1.JobStatus{}, "CronJob": &batchv1.CronJobStatus{}, "Pod": &corev1.PodStatus{},
		"Service": &corev1.ServiceStatus{}, "Ingress": &networkingv1.IngressStatus{}, "PersistentVolumeClaim": &corev1.PersistentVolumeClaimStatus{},
		"PodDisruptionBudget": &policyv1.PodDisruptionBudgetStatus{}, "HorizontalPodAutoscaler": &autoscalingv2.HorizontalPodAutoscalerStatus{},
	}
	for _, k := range states.Kinds() {
		for i, c := range k.Matrix() {
			if i%7 != 0 { // all take long, and don't differ
				continue
			}
			status, ok := rollup.Merge(k.Resource, c.Source, c.Reports)
			slices.Reverse(c.Reports)
			if again, _ := rollup.Merge(k.Resource, c.Source, c.Reports); !bytes.Equal(status, again) {
				t.Fatalf("%s: in another order %s, want %s", c.Name, again, status)
			}
			if types[k.Kind] == nil || !ok {
				continue
			}
			for i, p := range c.Reports {
				if len(p.Status) > 0 {
					c.Reports[i].Status = throughType(t, types[k.Kind], p.Status)
				}
			}
			status, _ = rollup.Merge(k.Resource, c.Source, c.Reports)
			read := throughType(t, types[k.Kind], status)
			if !reflect.DeepEqual(generic(t, status), generic(t, read)) {
				t.Fatalf("%s: written %s, read %s", c.Name, status, read)
			}
		}
	}
}

// throughType decodes and encodes a status.
func throughType(t *testing.T, object any, status []byte) []byte {
	t.Helper()
	decoded := reflect.New(reflect.TypeOf(object).Elem()).Interface()
	decoder := json.NewDecoder(bytes.NewReader(status))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(decoded); err != nil {
		t.Fatalf("decode %s: %v", status, err)
	}
	encoded, err := json.Marshal(decoded)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func generic(t *testing.T, text []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return v
}

// Whatever locations report, the merge ends with a status or none, and what it says of
// many locations is bounded.
func TestHostileStatuses(t *testing.T) {
	fields := slices.Collect(maps.Keys(map[string]bool{
		"observedGeneration": true, "replicas": true, "updatedReplicas": true, "readyReplicas": true, "conditions": true, "phase": true,
		"loadBalancer": true, "active": true, "capacity": true, "accessModes": true, "containerStatuses": true, "currentMetrics": true,
		"startTime": true, "message": true, "x.y": true, "": true,
	}))
	slices.Sort(fields)
	values := []string{
		"null", "true", "-1", "1e300", "9223372036854775807", "0.5", `""`, `"a"`, "[]", "{}", "[1]", `["a",null]`, `[{}]`, `{"a":1}`, `{"storage":"x"}`,
		`{"ingress":{}}`, `{"ingress":[1,{"ip":2}]}`, `[{"type":1}]`, `[{"type":"Ready"}]`, `[{"type":"Ready","status":true,"message":{},"lastTransitionTime":"x"}]`,
		`[{"type":"Resource","resource":{"current":"x"}}]`, `[{"type":"Resource","resource":null}]`, `[{"type":"\u0000é"}]`,
	}
	resources := []key.Resource{{Group: "a.b", Resource: "cs"}}
	for _, k := range states.Kinds() {
		resources = append(resources, k.Resource)
	}
	seeds.Check(t, func(t *rapid.T) {
		var inputs []rollup.Report
		for i := range rapid.IntRange(1, 4).Draw(t, "locations") {
			status := map[string]json.RawMessage{}
			for range rapid.IntRange(0, 4).Draw(t, "fields") {
				status[rapid.SampledFrom(fields).Draw(t, "field")] = json.RawMessage(rapid.SampledFrom(values).Draw(t, "value"))
			}
			text, err := json.Marshal(status)
			if err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 9).Draw(t, "is none") == 0 {
				text = []byte(rapid.SampledFrom([]string{"", "null", "1", "[]", `"x"`}).Draw(t, "none"))
			}
			three := rapid.Int64().Draw(t, "wanted")
			inputs = append(inputs, rollup.Report{
				Location: key.Location(fmt.Sprintf("l%d", i)), Sound: rapid.Bool().Draw(t, "sound"), Status: text, Generation: 1,
				Wanted: &wire.Wanted{Replicas: &three, Partition: &three, Completions: &three, Parallelism: &three},
			})
		}
		source := rapid.SampledFrom([]string{
			`{"metadata":{"generation":2},"spec":{"replicas":3}}`, `{"spec":{"replicas":2147483647}}`, `{"spec":[]}`, `{}`, `{"metadata":{"creationTimestamp":"x"},"spec":{"replicas":"a"}}`,
		}).Draw(t, "source")
		status, ok := rollup.Merge(rapid.SampledFrom(resources).Draw(t, "resource"), []byte(source), inputs)
		if ok && !gjson.ValidBytes(status) {
			t.Errorf("no JSON: %s", status)
		}
	})
}

func TestManyLocations(t *testing.T) {
	const maxSize = 32 << 10
	for _, k := range states.Kinds() {
		inputs := manyParts(k, 2000)
		for i := range inputs {
			inputs[i].Sound, inputs[i].Why = i%5 != 0, strings.Repeat("why ", 1000)
		}
		status, _ := rollup.Merge(k.Resource, k.Source(3, true), inputs)
		if len(status) > maxSize {
			t.Errorf("%s: the status takes %d bytes", k.Kind, len(status))
		}
		for _, c := range gjson.GetBytes(status, "conditions").Array() {
			if message := c.Get("message").Str; len(message) > 1024 {
				t.Errorf("%s: a message of %d bytes", k.Kind, len(message))
			}
		}
	}
}

// manyParts are locations in all states of a kind.
func manyParts(k states.Kind, n int) (all []rollup.Report) {
	var each []rollup.Report
	for _, state := range k.States() {
		each = append(each, k.Report(k.Object(3, state)))
	}
	for i := range n {
		p := each[i%len(each)]
		p.Location = key.Location(fmt.Sprintf("location-%d", i))
		all = append(all, p)
	}
	return all
}

func BenchmarkMerge(b *testing.B) {
	for _, k := range states.Kinds() {
		b.Run(k.Kind, func(b *testing.B) {
			inputs, source := manyParts(k, 1000), k.Source(3, true)
			b.ReportAllocs()
			for b.Loop() {
				rollup.Merge(k.Resource, source, inputs)
			}
		})
	}
}
