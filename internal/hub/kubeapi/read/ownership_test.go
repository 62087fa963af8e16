package read

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// TestMarksInEveryForm: an object in a location's view names its source in whatever
// form a client asks for.
func TestMarksInEveryForm(t *testing.T) {
	f := newFixture(t)
	in := map[string]string{"at": "l1"}
	objects := []sample{
		{gvr: locations, space: "root", name: "l1"},
		{gvr: configMaps, space: "a", namespace: "default", name: "x", labels: in},
		{gvr: configMaps, space: "b", namespace: "default", name: `q"<`, labels: in, annotations: map[string]string{"mine": "yes", "orrery.dev/source-uid": "forged"}},
		{gvr: namespaces, space: "a", name: "n", labels: map[string]string{"at": "l1", "orrery.dev/space": "forged"}},
		{gvr: widgetsV1, space: "a", namespace: "default", name: "w", labels: in},
	}
	f.put(objects...)
	s := f.serve()
	for _, o := range objects[1:] {
		kind := known()[o.gvr].GVK.Kind
		labels := map[string]string{"at": "l1", "orrery.dev/space": string(o.space), "orrery.dev/location": "l1.uid-l1"}
		annotations := map[string]string{
			"orrery.dev/source-kind": kind, "orrery.dev/source-namespace": o.namespace, "orrery.dev/source-name": o.name, "orrery.dev/source-uid": "uid-" + o.name,
		}
		if o.annotations["mine"] != "" {
			annotations["mine"] = "yes"
		}
		for how, m := range f.inEveryForm(t, s.URL+"/views/locations/l1", o) {
			if m == nil || !maps.Equal(m.Labels, labels) || !maps.Equal(m.Annotations, annotations) {
				t.Errorf("%s %s: %s: %+v", kind, o.name, how, m)
			}
		}
	}
	if n := f.server.Fallbacks(); n != 0 {
		t.Errorf("%d encodings fell back to decoding", n)
	}
}

// inEveryForm reads the metadata of an object in each form that there is.
func (f *fixture) inEveryForm(t *testing.T, root string, o sample) map[string]*metav1.ObjectMeta {
	t.Helper()
	gvs := []string{"/api/v1"}
	if o.gvr == widgetsV1 {
		gvs = []string{"/apis/example.com/v1", "/apis/example.com/v2"}
	}
	all := map[string]*metav1.ObjectMeta{}
	for _, gv := range gvs {
		list := root + gv + "/" + o.gvr.Resource + "?fieldSelector=metadata.name=" + strings.NewReplacer(`"`, "%22", "<", "%3C").Replace(o.name)
		for name, accept := range map[string]string{
			"JSON": "application/json", "YAML": "application/yaml", "partial": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
		} {
			_, body := get(t, list, "Accept", accept)
			all[gv+" list "+name] = firstOf(t, body)
		}
		_, body := get(t, list+"&pretty=1")
		all[gv+" pretty"] = firstOf(t, body)
		for _, include := range []string{"Metadata", "Object"} {
			_, body := get(t, list+"&includeObject="+include, "Accept", tableAccept)
			var table struct {
				Rows []struct{ Object metav1.PartialObjectMetadata }
			}
			if err := json.Unmarshal(body, &table); err != nil || len(table.Rows) != 1 {
				t.Fatalf("%v in %s", err, body)
			}
			all[gv+" table with "+include] = &table.Rows[0].Object.ObjectMeta
		}
		for name, accept := range map[string]string{"JSON": "application/json", "partial": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"} {
			all[gv+" watch "+name] = f.firstEvent(t, list+"&watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", accept)
		}
	}
	if o.gvr == configMaps {
		_, body := get(t, root+"/api/v1/configmaps?fieldSelector=metadata.name="+strings.NewReplacer(`"`, "%22", "<", "%3C").Replace(o.name), "Accept", "application/vnd.kubernetes.protobuf")
		decoded, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), body)
		if l, ok := decoded.(*corev1.ConfigMapList); ok && len(l.Items) == 1 {
			all["protobuf"] = &l.Items[0].ObjectMeta
		} else {
			t.Fatalf("protobuf: %v, %+v", err, decoded)
		}
	}
	return all
}

// firstOf is the metadata of the only item of a list in JSON or YAML.
func firstOf(t *testing.T, body []byte) *metav1.ObjectMeta {
	t.Helper()
	var l metav1.PartialObjectMetadataList
	if err := yaml.Unmarshal(body, &l); err != nil || len(l.Items) != 1 {
		t.Fatalf("%v in %s", err, body)
	}
	return &l.Items[0].ObjectMeta
}

func (f *fixture) firstEvent(t *testing.T, url, accept string) *metav1.ObjectMeta {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadBytes('\n')
	var event struct {
		Type   string
		Object metav1.PartialObjectMetadata
	}
	if err == nil {
		err = json.Unmarshal(line, &event)
	}
	if err != nil || event.Type != "ADDED" {
		t.Fatal(fmt.Errorf("event %s: %w", line, err))
	}
	return &event.Object.ObjectMeta
}
