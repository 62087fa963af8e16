package read

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
	"orrery.dev/orrery/test/support/seeds"
)

// report returns the report of a location about a sample.
func (o sample) report(l key.Location, origin key.Origin, report wire.Report) table.Update {
	object, err := key.ParseObject(o.key())
	if err != nil {
		panic(err)
	}
	if origin != key.Placed {
		report.Object = o.value()
	}
	value, err := json.Marshal(report)
	if err != nil {
		panic(err)
	}
	return table.Update{Key: key.Report{Location: l, Origin: origin, Object: object}.Key(), Value: value}
}

// TestReportInformers: informers of all kinds follow what locations report, as it comes and
// goes, with all spaces and locations in one.
func TestReportInformers(t *testing.T) {
	for name, start := range map[string]func(*rest.Config, <-chan struct{}) cache.SharedIndexInformer{
		"typed": typedInformer, "json": jsonInformer, "dynamic": dynamicInformer, "metadata": metadataInformer,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			s := f.serve()
			random := seeds.Rand(t, 5)
			churn := func() {
				o := cm([]key.Space{"a", "b"}[random.IntN(2)], fmt.Sprint("x", random.IntN(20)), fmt.Sprint(random.IntN(3)), []string{"at=l1.l2", "at=l1", "app=x"}[random.IntN(3)])
				switch l := []key.Location{"l1", "l2"}[random.IntN(2)]; random.IntN(6) {
				case 0, 1:
					f.put(o)
				case 2:
					f.del(o)
				case 3:
					u := o.report(l, key.Placed, wire.Report{})
					f.apply(table.Update{Key: u.Key})
				case 4:
					f.apply(o.report(l, key.Upsynced, wire.Report{State: wire.Present, Health: wire.Healthy}))
				default:
					f.apply(o.report(l, key.Placed, wire.Report{UID: "uid-" + o.name, State: wire.Failed, Status: json.RawMessage(`{}`)}))
				}
			}
			for range 60 {
				churn()
			}
			stop := make(chan struct{})
			defer close(stop)
			path := "/views/reports/spaces/*/locations/*"
			informer := start(&rest.Config{Host: s.URL + path}, stop)
			changed := make(chan struct{}, 1)
			change := func() {
				select {
				case changed <- struct{}{}:
				default:
				}
			}
			if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: func(any) { change() }, UpdateFunc: func(any, any) { change() }, DeleteFunc: func(any) { change() },
			}); err != nil {
				t.Fatal(err)
			}
			if !cache.WaitForCacheSync(stop, informer.HasSynced) {
				t.Fatal("not synced")
			}
			for range 300 {
				churn()
			}
			want := map[string]string{}
			body := bodyOf(t, s.URL+path+"/api/v1/configmaps")
			for _, item := range gjson.Get(body, "items").Array() {
				want[item.Get("metadata.namespace").Str+"/"+item.Get("metadata.name").Str] = item.Get(`metadata.labels.orrery\.dev/state`).Str
			}
			if len(want) < 20 {
				t.Fatalf("there are %d objects", len(want))
			}
			var got map[string]string
			for late := time.After(limit.Wait); ; {
				got = map[string]string{}
				for _, o := range informer.GetStore().List() {
					m, err := meta.Accessor(o)
					if err != nil {
						t.Fatal(err)
					}
					got[m.GetNamespace()+"/"+m.GetName()] = m.GetLabels()["orrery.dev/state"]
				}
				if maps.Equal(got, want) {
					break
				}
				select {
				case <-changed:
				case <-late:
					t.Fatalf("it has %v, want %v", got, want)
				}
			}
			if n := f.requests.Load(); n != 2 {
				t.Errorf("%d requests", n)
			}
			if n := f.server.Fallbacks(); n != 0 {
				t.Errorf("%d encodings fell back to decoding", n)
			}
		})
	}
}

// bodyOf is the body of an answer.
func bodyOf(t *testing.T, url string, header ...string) string {
	t.Helper()
	code, body, _ := fetch(t, url, header...)
	if code != http.StatusOK {
		t.Fatalf("%s: %d %s", url, code, body)
	}
	return string(body)
}

// TestStaleReports: a read shows that the reports of a location are stale, and a watch sends no event for it.
func TestStaleReports(t *testing.T) {
	f := newFixture(t)
	s := f.serve()
	f.apply(cm("a", "x", "1").report("l1", key.Upsynced, wire.Report{State: wire.Present}), cm("a", "x", "1").report("l2", key.Upsynced, wire.Report{State: wire.Present}))
	watching := angle{lens: Reports("a", "*"), gvr: configMaps}
	ctx, opts := watching.options("1")
	w, err := f.reader(watching.lens, configMaps).Watch(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	row := sample{gvr: locations, space: key.Root, name: "l1", content: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Connected", "status": "False", "lastTransitionTime": time.Now().Add(-(100*24 + 1) * time.Hour).UTC().Format(time.RFC3339)}}}}} // shown in days
	f.put(row)
	f.apply(cm("a", "y", "1").report("l1", key.Upsynced, wire.Report{State: wire.Present}))
	if e := limit.Receive(t, w.ResultChan(), "the report of y"); e.Object.(*object).row.In.(*reported).object.Name != "y" {
		t.Errorf("told of %+v", e)
	}
	body := bodyOf(t, s.URL+"/views/reports/spaces/a/locations/*/api/v1/configmaps")
	for i, want := range []string{"true", "true", ""} {
		item := gjson.Get(body, fmt.Sprint("items.", i))
		if got := item.Get(`metadata.annotations.orrery\.dev/stale`).String(); got != want {
			t.Errorf("%s: stale %q, want %q", item.Get("metadata.name"), got, want)
		}
	}
	var shown metav1.Table
	if err := json.Unmarshal([]byte(bodyOf(t, s.URL+"/views/reports/spaces/a/locations/*/api/v1/configmaps", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")), &shown); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"Stale 100d", "Stale 100d", "Live"} {
		if cells := shown.Rows[i].Cells; cells[len(cells)-1] != want {
			t.Errorf("%v, want %s", cells, want)
		}
	}
}

// TestHostileReports checks that a malformed object in a report does not fail lists.
func TestHostileReports(t *testing.T) {
	f := newFixture(t)
	s := f.serve()
	f.apply(cm("a", "fine", "1").report("l1", key.Upsynced, wire.Report{State: wire.Present}))
	for i, object := range []string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":5,"labels":"x","creationTimestamp":7},"data":{"k":"v"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"a":5},"ownerReferences":"x"},"data":{"k":"v"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":"x","data":5}`,
		`{"apiVersion":"v1","kind":"Pod","data":"x","metadata":{"name":"other","namespace":"other","labels":{"orrery.dev/space":"b"}}}`,
	} {
		u := cm("a", fmt.Sprint("x", i), "1").report("l1", key.Upsynced, wire.Report{State: wire.Present})
		u.Value = []byte(`{"uid":"","state":"Present","object":` + object + `}`)
		f.apply(u)
	}
	for _, accept := range []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"} {
		body := bodyOf(t, s.URL+"/views/reports/spaces/a/locations/l1/api/v1/configmaps", "Accept", accept)
		for _, name := range []string{"fine", "x0", "x1", "x2", "x3"} {
			if !strings.Contains(body, name) {
				t.Errorf("%s: %s is not in %q", accept, name, body)
			}
		}
		if strings.Contains(body, "other") {
			t.Errorf("%s: it is called as it says: %s", accept, body)
		}
	}
}
