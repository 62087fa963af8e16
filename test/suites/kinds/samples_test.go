package kinds

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

const (
	samplesDir = "../../../internal/hub/kinds/builtin/testdata/objects"
	// shop is the namespace of the samples that are in one.
	shop = "shop"
)

// sample is an object of one kind, as a user writes it.
type sample struct {
	gvk             schema.GroupVersionKind
	namespace, name string
	yaml            []byte
	// canonical is compact JSON with sorted keys and nothing added.
	canonical []byte
	// resource is the resource of the kind; status reports whether it has the subresource status.
	resource schema.GroupVersionResource
	status   bool
}

func (s sample) String() string {
	return strings.ReplaceAll(s.gvk.GroupVersion().String(), "/", ".") + "." + s.gvk.Kind
}

// collection is the path of the kind in an API.
func (s sample) collection() string {
	root := "/apis/" + s.resource.Group + "/" + s.resource.Version
	if s.resource.Group == "" {
		root = "/api/" + s.resource.Version
	}
	if s.namespace != "" {
		root += "/namespaces/" + s.namespace
	}
	return root + "/" + s.resource.Resource
}

// object is what orrery status calls the sample.
func (s sample) object() string { return strings.TrimPrefix(s.key(""), "/") }

func (s sample) path() string { return s.collection() + "/" + s.name }

// written is the sample, for the caller to change.
func (s sample) written(t *testing.T) map[string]any {
	t.Helper()
	return decode(t, s.canonical)
}

// samples returns one sample of every kind that a space serves. Orrery's own
// kinds apart, a kind without a sample fails the test.
func samples(t *testing.T, space *rest.Config) []sample {
	t.Helper()
	kinds := servedKinds(t, space)
	all := readSamples(t)
	have := map[schema.GroupVersionKind]bool{}
	for i, s := range all {
		k, ok := kinds[s.gvk]
		if !ok {
			t.Fatalf("there is a sample of %s, which the space does not serve", s.gvk)
		}
		if k.namespaced != (s.namespace != "") {
			t.Fatalf("the sample of %s is in namespace %q", s.gvk, s.namespace)
		}
		all[i].resource, all[i].status = k.resource, k.status
		have[s.gvk] = true
	}
	for gvk := range kinds {
		if !have[gvk] {
			t.Errorf("no sample of %s", gvk)
		}
	}
	return all
}

func readSamples(t *testing.T) []sample {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(samplesDir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("find samples in %s: %v", samplesDir, err)
	}
	var all []sample
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range bytes.SplitSeq(content, []byte("\n---\n")) {
			all = append(all, parseSample(t, doc))
		}
	}
	return all
}

func parseSample(t *testing.T, doc []byte) sample {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON(doc)
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	var head metav1.PartialObjectMetadata
	if err := json.Unmarshal(asJSON, &head); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return sample{
		gvk: head.GroupVersionKind(), namespace: head.Namespace, name: head.Name,
		yaml: doc, canonical: encode(t, decode(t, asJSON)),
	}
}

// another is a further object of a kind of which there is a sample.
func another(t *testing.T, all []sample, doc string) sample {
	t.Helper()
	s := parseSample(t, []byte(doc))
	for _, like := range all {
		if like.gvk == s.gvk {
			s.resource, s.status = like.resource, like.status
			return s
		}
	}
	t.Fatalf("no sample of %s", s.gvk)
	return s
}

type servedKind struct {
	resource   schema.GroupVersionResource
	namespaced bool
	status     bool
}

// servedKinds is what a space's discovery lists, but for Orrery's own kinds.
func servedKinds(t *testing.T, space *rest.Config) map[schema.GroupVersionKind]servedKind {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(space)
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatalf("discover the space: %v", err)
	}
	kinds := map[schema.GroupVersionKind]servedKind{}
	status := map[schema.GroupVersionResource]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		if gv.Group == orreryGroup {
			continue
		}
		for _, r := range list.APIResources {
			name, sub, isSub := strings.Cut(r.Name, "/")
			if !isSub && slices.Contains(r.Verbs, "get") { // others are asked and not kept
				kinds[gv.WithKind(r.Kind)] = servedKind{resource: gv.WithResource(name), namespaced: r.Namespaced}
			}
			if sub == "status" {
				status[gv.WithResource(name)] = true
			}
		}
	}
	for gvk, k := range kinds {
		k.status = status[k.resource]
		kinds[gvk] = k
	}
	return kinds
}
