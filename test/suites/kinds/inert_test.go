package kinds

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/test/support/env"
)

const (
	spacesDoc = "../../../docs/spaces.md"
	// strongFile has the kinds that refuse, change or create something in a cluster, in
	// the form in which they do most, and several objects of a kind where it has several
	// such forms.
	strongFile = "testdata/strong.yaml"
)

// row is one of the table of kinds in docs/spaces.md.
type row struct{ inCluster, inSpace, travels string }

// TestInertness shows what the table says, row by row: an object of the kind, in the form
// in which it does most, changes no answer to other writes, and stays as it was written.
func TestInertness(t *testing.T) {
	hub := env.StartHub(t, "--unsafe-no-fsync")
	env.CreateSpace(t, hub.Kubeconfig, "inert")
	config := hub.PathConfig("spaces/inert")
	space := newAPI(t, config)
	space.must(t, http.MethodPost, "/api/v1/namespaces", asYAML, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: "+shop+"}"))
	rows, all := docTable(t), samples(t, config)
	expectRows(t, rows, space, all)

	strong := map[string][]sample{}
	content, err := os.ReadFile(strongFile)
	if err != nil {
		t.Fatal(err)
	}
	for doc := range bytes.SplitSeq(content, []byte("\n---\n")) {
		s := another(t, all, string(doc))
		strong[resourceOf(s)] = append(strong[resourceOf(s)], s)
	}
	want := writes(t, space)
	for _, s := range all {
		t.Run(s.String(), func(t *testing.T) {
			is := rows[resourceOf(s)]
			if never := is.travels == "never"; never != s.never() {
				t.Errorf("docs/spaces.md says that it travels: %s", is.travels)
			}
			objects := append(slices.Clone(strong[resourceOf(s)]), s)
			if strings.HasPrefix(is.inSpace, "acts") {
				return
			}
			for _, o := range objects {
				space.must(t, http.MethodPost, o.collection(), asJSON, o.canonical)
			}
			if got := writes(t, space); got != want {
				t.Errorf("with it, other writes are answered with\n%s\nwant\n%s", got, want)
			}
			for _, o := range objects {
				got := space.get(t, o.path())
				if d := lacks(withoutStringData(o.written(t)), got, ""); d != "" {
					t.Errorf("%s is not left as it was written: %s", o.name, d)
				}
			}
		})
	}
	// All of it is there now, and nothing but it: nothing is made of it, nor later.
	written := map[string]int{}
	for _, s := range append(slices.Clone(all), slices.Concat(slices.Collect(maps.Values(strong))...)...) {
		if !strings.HasPrefix(rows[resourceOf(s)].inSpace, "acts") {
			written[resourceOf(s)]++
		}
	}
	written["namespaces"] = 2
	written["events"], written["events.events.k8s.io"] = 2, 2 // the same objects
	env.Throughout(t, 3*time.Second, func() error {
		for _, s := range all {
			list, _ := space.get(t, pathOfAll(s))["items"].([]any)
			if n := written[resourceOf(s)]; len(list) != n {
				return fmt.Errorf("%d %s are there, %d were written: %v", len(list), resourceOf(s), n, list)
			}
		}
		return nil
	})
}

// docTable reads the table of kinds.
func docTable(t *testing.T) map[string]row {
	t.Helper()
	content, err := os.ReadFile(spacesDoc)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]row{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.*) \\|$").FindAllStringSubmatch(string(content), -1) {
		cells := strings.Split(m[2], " | ")
		if _, ok := rows[m[1]]; ok || len(cells) != 3 {
			t.Fatalf("docs/spaces.md: row of %s: %q", m[1], m[2])
		}
		rows[m[1]] = row{cells[0], cells[1], cells[2]}
	}
	return rows
}

// expectRows expects a row for every kind that is served, and for no other.
func expectRows(t *testing.T, rows map[string]row, space api, all []sample) {
	t.Helper()
	left := maps.Clone(rows)
	delete(left, "spaces.orrery.dev") // of root alone
	for _, group := range append(groupsOf(t, space), "/api/v1") {
		resources, _ := space.get(t, group)["resources"].([]any)
		for _, r := range resources {
			name := fmt.Sprint(valueAt(r.(map[string]any), "name"))
			if strings.Contains(name, "/") {
				continue
			}
			if s := strings.Split(group, "/"); s[1] == "apis" {
				name += "." + s[2]
			}
			if _, ok := rows[name]; !ok {
				t.Errorf("docs/spaces.md has no row for %s", name)
			}
			delete(left, name)
		}
	}
	for name := range left {
		t.Errorf("docs/spaces.md has a row for %s, which is not served", name)
	}
	for _, s := range all {
		if rows[resourceOf(s)].inSpace == "" {
			t.Errorf("docs/spaces.md says nothing of %s", resourceOf(s))
		}
	}
}

func groupsOf(t *testing.T, space api) []string {
	t.Helper()
	var paths []string
	groups, _ := space.get(t, "/apis")["groups"].([]any)
	for _, g := range groups {
		versions, _ := valueAt(g.(map[string]any), "versions").([]any)
		for _, v := range versions {
			paths = append(paths, "/apis/"+fmt.Sprint(valueAt(v.(map[string]any), "groupVersion")))
		}
	}
	return paths
}

func resourceOf(s sample) string { return s.resource.GroupResource().String() }

// pathOfAll is the path of all objects of a kind, in whatever namespace.
func pathOfAll(s sample) string { s.namespace = ""; return s.collection() }

// withoutStringData is a Secret as it is kept.
func withoutStringData(written map[string]any) map[string]any {
	delete(written, "stringData")
	return written
}

// writes makes, changes and deletes objects of several kinds, and returns all
// that was answered.
func writes(t *testing.T, space api) string {
	t.Helper()
	var responses strings.Builder
	do := func(method, path, contentType, body string) {
		code, answer := space.do(t, method, path, contentType, asJSON, []byte(body))
		fmt.Fprintf(&responses, "%s %s: %d %s\n", method, path, code, volatile.ReplaceAll(answer, []byte(`"$1":"*"`)))
	}
	const ns = "/namespaces/" + shop + "/"
	for _, o := range []struct{ root, resource, object string }{
		{"/api/v1", "pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"w"},"spec":{"containers":[{"name":"c","image":"i"}]}}`},
		{"/api/v1", "configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"w"},"data":{"a":"b"}}`},
		{"/api/v1", "services", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"w"},"spec":{"ports":[{"port":80}]}}`},
		{"/api/v1", "persistentvolumeclaims", `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"w"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`},
		{"/apis/apps/v1", "deployments", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"w"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`},
		{"/apis/networking.k8s.io/v1", "ingresses", `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"w"},"spec":{"rules":[{"host":"h"}]}}`},
		{"/apis/rbac.authorization.k8s.io/v1", "roles", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"w"},"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`},
	} {
		do(http.MethodPost, o.root+ns+o.resource, asJSON, o.object)
		do(http.MethodPatch, o.root+ns+o.resource+"/w", mergePatch, `{"metadata":{"labels":{"x":"y"}}}`)
		do(http.MethodGet, o.root+ns+o.resource+"/w", asJSON, "")
		do(http.MethodDelete, o.root+ns+o.resource+"/w", asJSON, "")
	}
	do(http.MethodPost, "/api/v1/namespaces", asJSON, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"w","finalizers":["example.org/held"]}}`)
	do(http.MethodPatch, "/api/v1/namespaces/w", mergePatch, `{"metadata":{"finalizers":null}}`)
	do(http.MethodDelete, "/api/v1/namespaces/w", asJSON, "")
	env.Eventually(t, soon, func() error {
		if space.exists(t, "/api/v1/namespaces/w") {
			return fmt.Errorf("the namespace is still there")
		}
		return nil
	})
	return responses.String()
}

// volatile matches fields that differ between writes.
var volatile = regexp.MustCompile(`"(uid|resourceVersion|creationTimestamp|deletionTimestamp|time)":"[^"]*"`)

// TestWhatNeverTravels writes all that docs/spaces.md says never travels, and
// finds none of it in the location's view, but the rest.
func TestWhatNeverTravels(t *testing.T) {
	hub := env.StartHub(t, "--unsafe-no-fsync")
	env.CreateSpace(t, hub.Kubeconfig, "home")
	env.Orrery(t, hub.Kubeconfig, "location", "add", "away")
	space, view := newAPI(t, hub.PathConfig("spaces/home")), newAPI(t, hub.PathConfig("views/locations/away"))
	object := decode(t, []byte(neverTravels))
	listed := neverListed(t)
	// deletionTimestamp is that of objects that are no longer placed; selfLink is of old clients.
	for _, name := range listed {
		switch path := pathIn(name); {
		case strings.HasPrefix(name, "metadata.d"), strings.HasPrefix(name, "spec."), slices.Contains(setByServer, name):
		case valueAt(object, path...) == nil:
			t.Errorf("the test writes no %s", name)
		}
	}
	made := space.must(t, http.MethodPost, "/apis/apps/v1/namespaces/default/deployments?fieldManager=test", asJSON, encode(t, object))
	space.must(t, http.MethodPatch, "/apis/apps/v1/namespaces/default/deployments/w/status", mergePatch, []byte(`{"status":{"replicas":3}}`))
	for _, name := range setByServer {
		if name != "metadata.selfLink" && valueAt(made, pathIn(name)...) == nil {
			t.Errorf("the space sets no %s", name)
		}
	}
	var got map[string]any
	env.Eventually(t, soon, func() error {
		const path = "/apis/apps/v1/namespaces/default/deployments/w"
		if !view.exists(t, path) {
			return fmt.Errorf("the view has no %s", path)
		}
		got = view.get(t, path)
		return nil
	})
	for _, name := range listed {
		now, written := valueAt(got, pathIn(name)...), valueAt(object, pathIn(name)...)
		mark := written != nil && now != written // the view's own
		if name != "metadata.resourceVersion" && now != nil && !mark {
			t.Errorf("%s travels: %v", name, now)
		}
	}
	for _, path := range [][]string{{"metadata", "annotations", "note"}, {"metadata", "labels", "app"}, {"spec", "template"}} {
		if valueAt(got, path...) == nil {
			t.Errorf("%s does not travel", strings.Join(path, "."))
		}
	}
}

// setByServer is what a server sets, whatever a client writes.
var setByServer = []string{
	"metadata.creationTimestamp", "metadata.generation", "metadata.managedFields", "metadata.resourceVersion", "metadata.selfLink", "metadata.uid",
}

const neverTravels = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"w","namespace":"default","generateName":"w-",
"finalizers":["example.org/hold"],"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"1"}],
"labels":{"app":"w","orrery.dev/location":"x","orrery.dev/space":"x"},
"annotations":{"note":"stays","orrery.dev/cascade":"true","orrery.dev/recreate":"true","orrery.dev/implied":"x","kubectl.kubernetes.io/last-applied-configuration":"{}","orrery.dev/assigned-locations":"[\"away\"]",
"orrery.dev/return-status":"None","orrery.dev/expand":"true","orrery.dev/space":"x","orrery.dev/source-kind":"x","orrery.dev/source-namespace":"x",
"orrery.dev/source-name":"x","orrery.dev/source-uid":"x","orrery.dev/on-remove":"Orphan","orrery.dev/log":"x.1"}},
"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}},
"status":{"replicas":1}}`

// neverListed are the fields, labels and annotations that docs/spaces.md says never
// travel.
func neverListed(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(spacesDoc)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "\n## What never travels\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var names []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(section, -1) {
		names = append(names, m[1])
	}
	if len(names) < 20 {
		t.Fatalf("docs/spaces.md lists only %v", names)
	}
	return names
}

// pathIn is where an object has what the list calls by a name: a field, or an
// annotation or label.
func pathIn(name string) []string {
	switch {
	case name == "orrery.dev/location":
		return []string{"metadata", "labels", name}
	case strings.Contains(name, "/"):
		return []string{"metadata", "annotations", name}
	}
	return strings.Split(name, ".")
}
