package kinds

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/test/support/env"
)

// restTime is for how long the log must not change to count as idle.
const restTime = 5 * time.Second

// ownSamples are objects of Orrery's kinds. The hub writes their statuses, and nothing further.
const ownSamples = `
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: sample}
spec: {suspend: true}
---
apiVersion: orrery.dev/v1alpha1
kind: Customizer
metadata: {name: sample}
spec: {match: [{resources: [none]}], rules: [{path: $.x, release: true}]}
---
apiVersion: orrery.dev/v1alpha1
kind: KindRules
metadata: {name: sample}
spec: {kinds: [{resources: [configmaps]}], health: {state: "'Healthy'"}}
---
apiVersion: orrery.dev/v1alpha1
kind: Summary
metadata: {name: sample}
spec: {match: [{resources: [configmaps]}], combine: [{name: total, type: COUNT}]}
---
apiVersion: orrery.dev/v1alpha1
kind: APIExport
metadata: {name: sample}
spec: {resources: [{group: none.example.org, resource: nones}]}
---
apiVersion: orrery.dev/v1alpha1
kind: APIBinding
metadata: {name: sample}
spec: {export: {space: nowhere, name: sample}}
---
apiVersion: orrery.dev/v1alpha1
kind: APIExportView
metadata: {name: sample}
spec: {export: sample, split: {label: class}}
---
apiVersion: orrery.dev/v1alpha1
kind: Space
metadata: {name: sample}
---
apiVersion: orrery.dev/v1alpha1
kind: Location
metadata: {name: sample}`

// TestDryRunChangesNothing sends every request that a space or the root serves for
// what it has, subresources included, as a dry run: the log stays at its revision.
func TestDryRunChangesNothing(t *testing.T) {
	hub := env.StartHub(t, "--disconnected-after", "24h") // then the hub writes the sample of a Location
	env.CreateSpace(t, hub.Kubeconfig, "dry")
	for _, space := range []string{"dry", "root"} {
		t.Run(space, func(t *testing.T) {
			config := hub.PathConfig("spaces/" + space)
			d := newDry(t, config)
			d.rest()
			before := d.revision()
			for _, s := range d.samples {
				d.requests(s)
				if after := d.revision(); after != before {
					t.Errorf("the dry runs of %s took the log from revision %v to %v", s, before, after)
					before = after
				}
			}
			for _, sub := range slices.Sorted(maps.Keys(d.verbs)) {
				if _, resource, _ := strings.Cut(sub, " "); d.done[sub] == 0 && strings.Contains(resource, "/") && !slices.Equal(d.verbs[sub], []string{"get"}) {
					t.Errorf("no dry run of %s was answered", resource)
				}
			}
		})
	}
}

// dry is one API root with an object of every kind that it serves.
type dry struct {
	api
	t       *testing.T
	samples []sample
	// verbs are those of each resource and subresource; done counts the requests.
	verbs map[string]metav1.Verbs
	done  map[string]int
}

func newDry(t *testing.T, config *rest.Config) *dry {
	t.Helper()
	d := &dry{t: t, api: newAPI(t, config), verbs: map[string]metav1.Verbs{}, done: map[string]int{}}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]metav1.APIResource{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			d.verbs[list.GroupVersion+" "+r.Name] = r.Verbs
			if !strings.Contains(r.Name, "/") {
				kinds[list.GroupVersion+" "+r.Kind] = r
			}
		}
	}
	d.must(t, http.MethodPost, "/api/v1/namespaces", asYAML, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: "+shop+"}"))
	d.samples = samples(t, config)
	for doc := range strings.SplitSeq(ownSamples, "---") {
		s := parseSample(t, []byte(doc))
		r, ok := kinds[s.gvk.GroupVersion().String()+" "+s.gvk.Kind]
		if ok && slices.Contains(r.Verbs, "create") {
			s.resource = s.gvk.GroupVersion().WithResource(r.Name)
			d.samples = append(d.samples, s)
		}
	}
	for _, s := range d.samples {
		d.must(t, http.MethodPost, s.collection(), asJSON, s.canonical)
	}
	return d
}

// revision is that of the log.
func (d *dry) revision() any {
	d.t.Helper()
	return valueAt(d.get(d.t, "/api/v1/configmaps?limit=1"), "metadata", "resourceVersion")
}

// rest waits until the hub has written what it has to say of the samples.
func (d *dry) rest() {
	d.t.Helper()
	last, since := d.revision(), time.Now()
	env.Eventually(d.t, soon, func() error {
		if now := d.revision(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < restTime {
			return errors.New("the log goes on")
		}
		return nil
	})
}

// requests sends all that can be asked about a sample.
func (d *dry) requests(s sample) {
	d.t.Helper()
	resource := s.gvk.GroupVersion().String() + " " + s.resource.Resource
	if name := anotherName(s.gvk.Kind); name != "" {
		made := with(s.written(d.t), name, "metadata", "name")
		d.send(resource, "create", http.MethodPost, s.collection(), asJSON, encode(d.t, made))
	}
	for name := range d.verbs {
		if name == resource || strings.HasPrefix(name, resource+"/") {
			d.writes(s, name, strings.TrimPrefix(name, resource))
		}
	}
	d.send(resource, "delete", http.MethodDelete, s.path(), asJSON, nil)
	d.send(resource, "deletecollection", http.MethodDelete, s.collection(), asJSON, nil)
}

// anotherName is one for another object of a kind; empty: its name is said elsewhere
// in it, too.
func anotherName(kind string) string {
	switch kind {
	case "CustomResourceDefinition", "APIService":
		return ""
	case "IPAddress":
		return "10.1.2.3"
	}
	return "another"
}

// writes sends the writes to one object, or to one of its subresources.
func (d *dry) writes(s sample, resource, subresource string) {
	d.t.Helper()
	path := s.path() + subresource
	if slices.Contains(d.verbs[resource], "get") {
		changed := with(d.get(d.t, path), "changed", "metadata", "labels", "dry")
		switch subresource {
		case "/scale":
			changed = with(changed, 7, "spec", "replicas")
		case "/status":
			if text := statuses[s.gvk.Kind]; text != "" {
				changed["status"] = decode(d.t, []byte(text))
			}
		}
		d.send(resource, "update", http.MethodPut, path, asJSON, encode(d.t, changed))
	} else if subresource != "" {
		d.send(resource, "create", http.MethodPost, path, asJSON, nil)
	}
	labels := `{"metadata":{"labels":{"dry":"patched"}}}`
	if subresource == "/scale" {
		labels = `{"spec":{"replicas":8}}`
	}
	d.send(resource, "patch", http.MethodPatch, path, mergePatch, []byte(labels))
	d.send(resource, "patch", http.MethodPatch, path+"?fieldManager=dry&force=true", applyPatch, s.yaml)
}

// send sends a request that the resource has the verb for.
func (d *dry) send(resource, verb, method, path, contentType string, body []byte) {
	d.t.Helper()
	if !slices.Contains(d.verbs[resource], verb) {
		return
	}
	if strings.Contains(path, "?") {
		path += "&dryRun=All"
	} else {
		path += "?dryRun=All"
	}
	code, answer := d.do(d.t, method, path, contentType, asJSON, body)
	switch {
	case code == http.StatusOK || code == http.StatusCreated:
		d.done[resource]++
	case contentType == applyPatch && strings.Contains(path, "/scale?"): // another kind
	default:
		d.t.Errorf("%s %s is answered with %d: %s", method, path, code, answer)
	}
}
