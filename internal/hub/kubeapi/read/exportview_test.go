package read

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
)

const everywhere = "/views/exports/p/e/spaces/*"

// TestExportViewsHaveWideNames checks an object in a view of all spaces: it has a wide name, by which
// it can be read, and annotations with its space and name, which users can't forge. In the view of
// its own space it is unchanged.
func TestExportViewsHaveWideNames(t *testing.T) {
	f := newFixture(t, withExportViews)
	o := cm("a", "x", "1", "app=web")
	o.annotations = map[string]string{"mine": "yes", v1alpha1.SpaceAnnotation: "forged", v1alpha1.SourceNamespaceAnnotation: "forged"}
	f.put(o)
	f.put(sample{gvr: namespaces, space: "a", name: "n", annotations: o.annotations})
	f.put(cm("b", "x", "not bound", "app=web"))
	s := f.serve()

	_, body := get(t, s.URL+"/views/slices/p/v/values/web/spaces/a/api/v1/namespaces/default/configmaps/x")
	if want := strings.Replace(string(o.value()), `"metadata":{`, `"metadata":{"resourceVersion":"1",`, 1); string(body) != want {
		t.Errorf("in its space:\n got %s\nwant %s", body, want)
	}
	for _, path := range []string{"/views/slices/p/v/values/web/spaces/*", everywhere} {
		client := kubernetes.NewForConfigOrDie(&rest.Config{Host: s.URL + path}).CoreV1()
		typed, err := client.ConfigMaps("a--default").Get(t.Context(), "x", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all, err := client.ConfigMaps("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(all.Items) != 1 || all.ResourceVersion != "3" {
			t.Fatalf("%s: %+v, %v", path, all, err)
		}
		var plain corev1.ConfigMap
		if err := json.Unmarshal([]byte(bodyOf(t, s.URL+path+"/api/v1/namespaces/a--default/configmaps/x")), &plain); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"mine": "yes", "orrery.dev/space": "a", "orrery.dev/source-namespace": "default", "orrery.dev/source-name": "x"}
		for _, got := range []corev1.ConfigMap{*typed, all.Items[0], plain} {
			if got.Namespace != "a--default" || got.Name != "x" || got.ResourceVersion != "1" || fmt.Sprint(got.Annotations) != fmt.Sprint(want) {
				t.Errorf("%s: %+v", path, got.ObjectMeta)
			}
		}
	}
	n := gjson.Parse(bodyOf(t, s.URL+everywhere+"/api/v1/namespaces/a--n")).Get("metadata")
	if a := n.Get("annotations"); n.Get("name").Str != "a--n" || a.Get(`orrery\.dev/source-name`).Str != "n" || a.Get(`orrery\.dev/source-namespace`).Exists() {
		t.Errorf("a Namespace: %s", n)
	}
	for _, path := range []string{
		"/views/slices/p/v/rest/spaces/*/api/v1/namespaces/a--default/configmaps/x", "/views/slices/p/v/values/web/spaces/b/api/v1/namespaces/default/configmaps/x",
		everywhere + "/api/v1/namespaces/default/configmaps/x", everywhere + "/api/v1/namespaces/b--default/configmaps/x", everywhere + "/api/v1/namespaces/n",
	} {
		if code, body := get(t, s.URL+path); code != 404 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if n := f.server.Fallbacks(); n != 0 {
		t.Errorf("%d encodings fell back to decoding", n)
	}
}

// TestExportViewsSelect checks that selectors and tables use wide names.
func TestExportViewsSelect(t *testing.T) {
	f := newFixture(t, withExportViews)
	for _, s := range []key.Space{"a", "ab"} {
		f.put(cm(s, "x", "1", "app=web"))
		f.put(cm(s, "y", "1"))
	}
	s := f.serve()
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: s.URL + everywhere}).CoreV1()
	for _, test := range []struct{ namespace, fields, labels, want string }{
		{"", "", "", "a--default/x a--default/y ab--default/x ab--default/y"},
		{"ab--default", "", "", "ab--default/x ab--default/y"},
		{"", "metadata.namespace=ab--default", "", "ab--default/x ab--default/y"},
		{"", "metadata.namespace!=ab--default", "app", "a--default/x"},
		{"", "metadata.namespace=default", "", ""},
		{"default", "", "", ""},
		{"", "metadata.name=y", "", "a--default/y ab--default/y"},
	} {
		all, err := client.ConfigMaps(test.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: test.fields, LabelSelector: test.labels})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range all.Items {
			got = append(got, o.Namespace+"/"+o.Name)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
	var shown metav1.Table
	if err := json.Unmarshal([]byte(bodyOf(t, s.URL+everywhere+"/api/v1/configmaps", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")), &shown); err != nil {
		t.Fatal(err)
	}
	last := len(shown.ColumnDefinitions) - 1
	if len(shown.Rows) != 4 || shown.ColumnDefinitions[last].Name != "Space" || shown.Rows[0].Cells[last] != "a" || shown.Rows[3].Cells[last] != "ab" {
		t.Errorf("%+v", shown)
	}
}

// TestExportViewsNameOwners checks that references to cluster-scoped owners have wide names. Owners
// in a namespace and owners of unknown kinds keep their names.
func TestExportViewsNameOwners(t *testing.T) {
	f := newFixture(t, withExportViews)
	o := cm("a", "x", "1")
	owner := func(version, kind, name string) map[string]any {
		return map[string]any{"apiVersion": version, "kind": kind, "name": name, "uid": "u-" + name}
	}
	o.content["metadata"] = map[string]any{"name": "x", "namespace": "default", "ownerReferences": []any{
		owner("v1", "ConfigMap", "c"), owner("v1", "Namespace", "n"), owner("example.com/v1", "Namespace", "w"), owner("v1", "Namespace", "m")}}
	f.put(o)
	s := f.serve()
	for path, want := range map[string]string{
		everywhere + "/api/v1/namespaces/a--default/configmaps/x":            `["c","a--n","w","a--m"]`,
		"/views/exports/p/e/spaces/a/api/v1/namespaces/default/configmaps/x": `["c","n","w","m"]`,
	} {
		owners := gjson.Get(bodyOf(t, s.URL+path), "metadata.ownerReferences")
		if got := owners.Get("#.name").Raw; got != want || owners.Get("1.uid").Str != "u-n" {
			t.Errorf("%s: %s, want %s", path, owners, want)
		}
	}
}

// TestExportViewChanges checks that a watch sends one event for an object that enters or leaves an
// export view by the write of another object. A client that resumes between two events of a
// revision gets the remaining ones.
func TestExportViewChanges(t *testing.T) {
	f := newFixture(t, withExportViews)
	f.put(cm("a", "w", "1", "app=web"))
	f.put(cm("ab", "x", "1", "app=web"))
	f.apply(table.Update{Key: withoutViewKey, Value: []byte("web")}, table.Update{Key: cm("a", "w", "").key(), Value: cm("a", "w", "2", "app=web").value()})
	for from, want := range map[int64][]string{
		2: {"DELETED w 2", "DELETED x 3"},
		3: nil,
	} {
		if got := firstEvents(t, f, sliceOf("web"), from, len(want)); !slices.Equal(got, want) {
			t.Errorf("from %d: %v, want %v", from, got, want)
		}
	}
	if got, want := firstEvents(t, f, sliceOf(""), 2, 2), []string{"ADDED x 2", "ADDED w 3"}; /* w was written at that revision */ !slices.Equal(got, want) {
		t.Errorf("in the other slice: %v, want %v", got, want)
	}
}

// firstEvents returns the first n events of a watch of ConfigMaps in an export view of all spaces.
func firstEvents(t *testing.T, f *fixture, view key.ExportView, from int64, n int) (all []string) {
	t.Helper()
	watching := angle{lens: viewOf(view, "*", f.table.Rev()), gvr: configMaps}
	ctx, opts := watching.options(fmt.Sprint(from))
	w, err := f.reader(watching.lens, configMaps).Watch(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for range n {
		e := limit.Receive(t, w.ResultChan(), "an event of the export view")
		o := e.Object.(*object).GetObjectMeta()
		all = append(all, fmt.Sprint(e.Type, " ", o.GetName(), " ", o.GetResourceVersion()))
	}
	return all
}

// TestExportViewsEnd checks that a watch ends when a stream condition fails, and sends no deletions
// of objects that still exist.
func TestExportViewsEnd(t *testing.T) {
	offer := offered()
	export, view, bound := offer[0], offer[1], offer[2]
	changed := func(o sample, path string, value any) []byte {
		var whole map[string]any
		if err := json.Unmarshal(o.value(), &whole); err != nil {
			t.Fatal(err)
		}
		whole["spec"].(map[string]any)[path] = value
		return []byte(compact(whole))
	}
	whole, web, ofA := everywhere, "/views/slices/p/v/values/web/spaces/*", "/views/exports/p/e/spaces/a"
	for name, test := range map[string]struct {
		update  table.Update
		expired []string // watches that end with an expired error
		ended   []string // watches that end without an error
	}{
		"another object":    {update: table.Update{Key: cm("b", "other", "").key(), Value: cm("b", "other", "").value()}},
		"export deleted":    {update: table.Update{Key: export.key()}, expired: []string{whole, web, ofA}},
		"export is another": {update: table.Update{Key: export.key(), Value: export.value()}, expired: []string{whole, web, ofA}},
		"view deleted":      {update: table.Update{Key: view.key()}, expired: []string{web}},
		"provider deleted":  {update: table.Update{Key: key.Space("p").Key()}, expired: []string{whole, web, ofA}},
		"claims nothing":    {update: table.Update{Key: export.key(), CreateRev: -1, Value: changed(export, "claims", []any{})}, expired: []string{whole, web, ofA}},
		"claims less": {update: table.Update{Key: export.key(), CreateRev: -1, Value: changed(export, "claims", []any{
			map[string]any{"resource": "configmaps", "verbs": []any{"get", "list", "watch"}}})}, expired: []string{whole, web, ofA}},
		"offers more": {update: table.Update{Key: export.key(), CreateRev: -1, Value: changed(export, "resources", []any{})}},
		"unbound":     {update: table.Update{Key: bound.key()}, ended: []string{ofA}},
		"space gone":  {update: table.Update{Key: key.Space("a").Key()}, ended: []string{ofA}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, withExportViews)
			f.put(cm("a", "x", "1", "app=web"))
			s := f.serve()
			watches := map[string]watch.Interface{}
			for _, path := range []string{whole, web, ofA} {
				w, err := kubernetes.NewForConfigOrDie(&rest.Config{Host: s.URL + path}).CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
				if err != nil {
					t.Fatal(err)
				}
				defer w.Stop()
				watches[path] = w
			}
			f.rewrite(test.update)
			f.put(cm("a", "last", "1", "app=web"))
			for path, w := range watches {
				checkEnd(t, path, w, slices.Contains(test.expired, path), slices.Contains(test.ended, path))
			}
		})
	}
}

// checkEnd checks how a watch ends; one that does not gets the last object.
func checkEnd(t *testing.T, path string, w watch.Interface, expired, ended bool) {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		switch {
		case !ok:
			if !ended {
				t.Errorf("%s ended", path)
			}
		case e.Type == watch.Error:
			if !expired || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
				t.Errorf("%s ended: %+v", path, e.Object)
			}
		case expired || ended || e.Type != watch.Added || e.Object.(*corev1.ConfigMap).Name != "last":
			t.Errorf("%s: %s %+v", path, e.Type, e.Object)
		}
	case <-time.After(limit.Wait):
		t.Errorf("%s: waited too long", path)
	}
}

// rewrite applies an update. If its CreateRev is negative, the object was created before the first
// revision.
func (f *fixture) rewrite(u table.Update) {
	if u.CreateRev >= 0 {
		f.apply(u)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rev++
	u.CreateRev, u.ModRev = 0, f.rev
	if err := f.table.Apply(f.rev, []table.Update{u}); err != nil {
		f.t.Fatal(err)
	}
}

// TestExportViewsHide checks that a view excludes the objects of a hidden space, and that its watches
// end when the binding of the space changes.
func TestExportViewsHide(t *testing.T) {
	f := newFixture(t, withExportViews)
	f.put(cm("a", "x", "1"), cm("ab", "y", "1"))
	bound := offered()[2]
	row, _ := f.table.Get(bound.key())
	lens := ExportView(ExportViewScope{ID: wholeView(), Space: key.AllSpaces, Hidden: map[key.Space]*table.Entry{"a": row.Entry}, DecidedAt: 1})
	made, err := f.reader(lens, configMaps).List(t.Context(), nil)
	if l := made.(*list); err != nil || len(l.Items) != 1 || l.Items[0].GetObjectMeta().GetName() != "y" {
		t.Fatalf("%v", err)
	}
	ctx, opts := angle{lens: lens, gvr: configMaps}.options("1")
	w, err := f.reader(lens, configMaps).Watch(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	f.put(cm("a", "x", "2"))
	f.rewrite(table.Update{Key: bound.key(), CreateRev: -1, Value: bound.value()})
	if e := limit.Receive(t, w.ResultChan(), "the end of the watch"); e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		t.Errorf("%+v", e)
	}
}

// TestExportViewsDecidedEarlier checks that a watch is refused if its hidden spaces were determined
// before the export changed.
func TestExportViewsDecidedEarlier(t *testing.T) {
	f := newFixture(t, withExportViews)
	f.rewrite(table.Update{Key: offered()[0].key(), CreateRev: -1, Value: offered()[0].value()})
	for decidedAt, fine := range map[int64]bool{0: false, 1: true} {
		lens := viewOf(wholeView(), key.AllSpaces, decidedAt)
		ctx, opts := angle{lens: lens, gvr: configMaps}.options("")
		w, err := f.reader(lens, configMaps).Watch(ctx, opts)
		if err != nil {
			t.Fatal(err)
		}
		if _, over := w.(over); over == fine {
			t.Errorf("decided at %d: %T", decidedAt, w)
		}
		w.Stop()
	}
}

// TestExportViewsReadAsDecided checks that a request that was authorized before the claims of the
// export changed reads nothing.
func TestExportViewsReadAsDecided(t *testing.T) {
	f := newFixture(t, withExportViews)
	f.put(cm("a", "x", "1"))
	lens := viewOf(wholeView(), key.AllSpaces, f.table.Rev())
	read := func(refused bool) {
		t.Helper()
		if _, err := f.reader(lens, configMaps).List(t.Context(), nil); apierrors.IsServerTimeout(err) != refused || err != nil != refused {
			t.Errorf("list: %v", err)
		}
		ctx := request.WithNamespace(t.Context(), "a--default")
		if _, err := f.reader(lens, configMaps).Get(ctx, "x", nil); apierrors.IsServerTimeout(err) != refused || err != nil != refused {
			t.Errorf("get: %v", err)
		}
	}
	read(false)
	export := offered()[0]
	export.content["spec"].(map[string]any)["claims"] = []any{map[string]any{"resource": "configmaps", "verbs": []any{"create"}}}
	f.rewrite(table.Update{Key: export.key(), CreateRev: -1, Value: export.value()})
	read(true)
	lens = viewOf(wholeView(), key.AllSpaces, f.table.Rev())
	read(false)
}
