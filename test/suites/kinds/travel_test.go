package kinds

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/protocol"
)

// never reports whether objects of the kind are never placed.
func (s sample) never() bool { return s.gvk.Kind == "Event" || s.gvk.Kind == "Lease" }

// asV2 is how the object that is written as autoscaling/v1 is stored and travels.
const asV2 = `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"api","namespace":"shop"},"spec":{` +
	`"maxReplicas":10,"metrics":[{"resource":{"name":"cpu","target":{"averageUtilization":70,"type":"Utilization"}},"type":"Resource"}],` +
	`"minReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"api"}}}`

// A kind that a CRD defines, without a subresource for status, an object of it,
// and what a location gets: with the defaults of the schema, without the status.
const (
	probeCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: probes.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: probes, singular: probe, kind: Probe, listKind: ProbeList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {every: {type: string, default: 1m}, extra: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
          status: {type: object, properties: {seen: {type: integer}}}
`
	probe     = `{"apiVersion":"example.org/v1","kind":"Probe","metadata":{"name":"one","namespace":"shop"},"spec":{"extra":{"a":{},"n":1.5}},"status":{"seen":3}}`
	probeSent = `{"apiVersion":"example.org/v1","kind":"Probe","metadata":{"name":"one","namespace":"shop"},"spec":{"every":"1m","extra":{"a":{},"n":1.5}}}`
)

// travels is what a location is to get of a sample, and where its view has it.
func (s sample) travels() (path string, object []byte) {
	if s.gvk.Group == "autoscaling" && s.gvk.Version == "v1" {
		s.resource.Version, s.canonical = "v2", []byte(asV2)
	}
	return s.path(), s.canonical
}

// key is what the protocol calls the sample.
func (s sample) key(space string) string {
	group := s.resource.Group
	if group == "" {
		group = "core"
	}
	segments := []string{space, group, s.resource.Resource, s.namespace, s.name}
	if s.namespace == "" {
		segments = slices.Delete(segments, 3, 4)
	}
	return strings.Join(segments, "/")
}

// placeAll is a Placement of all samples, and of all of Orrery's own kinds.
func placeAll(t *testing.T, all []sample, location string) []byte {
	t.Helper()
	byGroup := map[string]map[string]any{}
	for _, s := range all {
		test := byGroup[s.gvk.Group]
		if test == nil {
			// Statuses change by themselves where controllers run, and have tests of their own.
			test = map[string]any{"apiGroup": s.gvk.Group, "resources": []string{}, "names": []string{}, "returnStatus": v1alpha1.ReturnStatusNone}
			byGroup[s.gvk.Group] = test
		}
		test["resources"] = append(test["resources"].([]string), s.resource.Resource)
		test["names"] = append(test["names"].([]string), s.name)
	}
	tests := []any{map[string]any{"apiGroup": orreryGroup}}
	for _, test := range byGroup {
		tests = append(tests, test)
	}
	return encode(t, map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Placement", "metadata": map[string]any{"name": "all"},
		"spec": map[string]any{"locations": []any{map[string]any{"names": []string{location}}}, "downsync": tests},
	})
}

const placements = "/apis/orrery.dev/v1alpha1/placements"

// TestWhatTravelsIsWhatWasWritten writes all samples by kubectl, places them, and
// compares what the location's view and the agents' protocol have of them.
func TestWhatTravelsIsWhatWasWritten(t *testing.T) {
	const spaceName, location = "travel", "edge"
	hub := env.StartHub(t)
	env.CreateSpace(t, hub.Kubeconfig, spaceName)
	env.Orrery(t, hub.Kubeconfig, "location", "add", location)
	config := hub.PathConfig("spaces/" + spaceName)
	kubeconfig := hub.PathKubeconfig("spaces/" + spaceName)
	all, space := samples(t, config), newAPI(t, config)

	env.Kubectl(t, kubeconfig, "create", "namespace", shop)
	expectEach(t, all, "created", env.Kubectl(t, kubeconfig, "apply", "-f", samplesDir))
	env.Kubectl(t, kubeconfig, "diff", "-f", samplesDir) // fails if there is one
	before := versions(t, space, all)
	env.Kubectl(t, kubeconfig, "apply", "-f", samplesDir)
	if after := versions(t, space, all); !maps.Equal(before, after) {
		t.Errorf("applied again, the objects have versions\n%v\nwere\n%v", after, before)
	}

	env.KubectlIn(t, kubeconfig, probeCRD, "create", "-f", "-")
	custom := parseSample(t, []byte(probe))
	custom.resource = custom.gvk.GroupVersion().WithResource("probes")
	space.must(t, http.MethodPost, custom.collection(), asJSON, custom.canonical)
	custom.canonical = []byte(probeSent)
	placed := append(slices.Clone(all), custom)

	agent := newAgent(t, hub, location)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	frames, err := agent.Open(ctx, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	defer frames.Close()
	until(t, frames, func(f wire.Frame) bool { return f.Hello != nil && f.Hello.Count == 0 })
	space.must(t, http.MethodPost, placements, asJSON, placeAll(t, placed, location))

	want := map[string]string{}
	view := newAPI(t, hub.PathConfig("views/locations/"+location))
	for _, s := range placed {
		path, object := s.travels()
		if s.never() {
			if view.exists(t, path) {
				t.Errorf("%s travels", s)
			}
			continue
		}
		want[s.key(spaceName)] = string(object)
		if got := withoutAdded(t, view.raw(t, http.MethodGet, path, "", asJSON, nil), s, spaceName); got != string(object) {
			t.Errorf("the view has %s as\n%s\nwant\n%s", s, got, object)
		}
	}
	if view.exists(t, placements+"/all") {
		t.Error("the placement itself travels")
	}
	comparePuts(t, "the stream", until(t, frames, func(f wire.Frame) bool { return f.Mark != nil && f.Mark.Count == len(want) }), want)
	comparePuts(t, "a walk", walked(t, agent), want)

	space.must(t, http.MethodDelete, placements+"/all", asJSON, nil)
	left := until(t, frames, func(f wire.Frame) bool { return f.Mark != nil && f.Mark.Count == 0 })
	if n := len(left) - 1; n != len(want) {
		t.Errorf("%d frames take back %d objects", n, len(want))
	}
	expectEach(t, all, "deleted", env.Kubectl(t, kubeconfig, "delete", "-f", samplesDir))
}

// versions returns the resource versions of all samples. The output of kubectl for a second apply is
// not checked: where the encoding of the API adds to a list, kubectl sends a patch that changes
// nothing, and prints "configured".
func versions(t *testing.T, space api, all []sample) map[string]any {
	t.Helper()
	versions := map[string]any{}
	for _, s := range all {
		versions[s.path()] = valueAt(space.get(t, s.path()), "metadata", "resourceVersion")
	}
	return versions
}

// expectEach expects that kubectl has said the same of each object.
func expectEach(t *testing.T, all []sample, what, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, line := range lines {
		if !strings.HasSuffix(line, " "+what) && !strings.Contains(line, " "+what+" ") {
			t.Errorf("kubectl says %q, not %s", line, what)
		}
	}
	if len(lines) != len(all) {
		t.Errorf("kubectl says %d lines of %d objects:\n%s", len(lines), len(all), out)
	}
}

// withoutAdded removes the resource version and the ownership metadata that a view adds to the
// objects of a location.
func withoutAdded(t *testing.T, answer []byte, source sample, space string) string {
	t.Helper()
	answer = bytes.TrimSuffix(answer, []byte("\n"))
	take := func(path, want string) {
		t.Helper()
		escaped := strings.NewReplacer("orrery.dev", `orrery\.dev`).Replace(path)
		v := gjson.GetBytes(answer, escaped)
		if v.Type != gjson.String || !regexp.MustCompile("^"+want+"$").MatchString(v.Str) {
			t.Errorf("%s is %s in %s", path, v.Raw, answer)
		}
		var err error
		if answer, err = sjson.DeleteBytes(answer, escaped); err != nil {
			t.Fatal(err)
		}
	}
	kind, namespace, name := source.gvk.Kind, gjson.GetBytes(source.canonical, "metadata.namespace").Str, gjson.GetBytes(source.canonical, "metadata.name").Str
	take("metadata.resourceVersion", "[0-9]+")
	take("metadata.labels.orrery.dev/space", space)
	take("metadata.labels.orrery.dev/location", location+`\.[0-9a-f]{8}`)
	take("metadata.annotations.orrery.dev/source-kind", kind)
	take("metadata.annotations.orrery.dev/source-namespace", namespace)
	take("metadata.annotations.orrery.dev/source-name", regexp.QuoteMeta(name))
	take("metadata.annotations.orrery.dev/source-uid", "[0-9a-f-]{36}")
	for _, field := range []string{"metadata.labels", "metadata.annotations"} {
		if gjson.GetBytes(answer, field).Raw == "{}" {
			answer, _ = sjson.DeleteBytes(answer, field)
		}
	}
	return string(answer)
}

// comparePuts expects puts of exactly these objects, byte for byte.
func comparePuts(t *testing.T, how string, frames []wire.Frame, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, f := range frames {
		switch {
		case f.Put != nil:
			got[f.Put.Key] = string(f.Put.Object)
			if f.Put.Digest != wire.SumOf(f.Put.Object) {
				t.Errorf("%s: the digest of %s is not that of its object", how, f.Put.Key)
			}
		case f.Hold != nil, f.Conflict != nil, f.Del != nil:
			t.Errorf("%s has a frame %+v", how, f)
		}
	}
	for key, object := range want {
		if got[key] != object {
			t.Errorf("%s has %s as\n%s\nwant\n%s", how, key, got[key], object)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%s has %s", how, key)
		}
	}
}

// newAgent speaks the protocol as an agent of a location does.
func newAgent(t *testing.T, hub *env.Hub, location string) *protocol.Client {
	t.Helper()
	join, err := hub.Admin().Enrol(t.Context(), key.Location(location))
	if err != nil {
		t.Fatal(err)
	}
	client, err := protocol.NewClient(join)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// until reads frames up to the one that is looked for. Pings are left out.
func until(t *testing.T, s *protocol.Stream, last func(wire.Frame) bool) []wire.Frame {
	t.Helper()
	var frames []wire.Frame
	for {
		f, err := s.Next()
		if err != nil {
			t.Fatalf("after %d frames: %v", len(frames), err)
		}
		if f.Ping != nil {
			continue
		}
		if frames = append(frames, f); last(f) {
			return frames
		}
	}
}

// walked are the frames that an agent without anything gets by comparing and fetching.
func walked(t *testing.T, agent *protocol.Client) (frames []wire.Frame) {
	t.Helper()
	have := protocol.Holding{}
	if _, _, err := agent.Walk(t.Context(), have, func(wire.Frame) {}); err != nil {
		t.Fatal(err)
	}
	for keys := range slices.Chunk(have.Keys(), wire.MaxFetch) {
		var fetches []any
		for _, k := range keys {
			fetches = append(fetches, wire.Fetch{Key: k})
		}
		answer, err := agent.Exchange(t.Context(), route.Fetch, fetches...)
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, answer...)
	}
	return frames
}
