package read

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/test/support/limit"
)

// TestInformers: informers of all kinds sync with one request and see what happens.
func TestInformers(t *testing.T) {
	for _, path := range []string{"/spaces/a", "/spaces/*", "/views/locations/l1", "/views/exports/p/e/spaces/*", "/views/slices/p/v/rest/spaces/a"} {
		for name, start := range map[string]func(*rest.Config, <-chan struct{}) cache.SharedIndexInformer{
			"typed": typedInformer, "json": jsonInformer, "dynamic": dynamicInformer, "metadata": metadataInformer,
		} {
			t.Run(path+" "+name, func(t *testing.T) { testInformer(t, path, start) })
		}
	}
}

func typedInformer(c *rest.Config, stop <-chan struct{}) cache.SharedIndexInformer {
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(c), 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	factory.Start(stop)
	return informer
}

func jsonInformer(c *rest.Config, stop <-chan struct{}) cache.SharedIndexInformer {
	c.ContentType = "application/json"
	return typedInformer(c, stop)
}

func dynamicInformer(c *rest.Config, stop <-chan struct{}) cache.SharedIndexInformer {
	factory := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(c), 0)
	informer := factory.ForResource(configMaps).Informer()
	factory.Start(stop)
	return informer
}

func metadataInformer(c *rest.Config, stop <-chan struct{}) cache.SharedIndexInformer {
	factory := metadatainformer.NewSharedInformerFactory(metadata.NewForConfigOrDie(c), 0)
	informer := factory.ForResource(configMaps).Informer()
	factory.Start(stop)
	return informer
}

func testInformer(t *testing.T, path string, start func(*rest.Config, <-chan struct{}) cache.SharedIndexInformer) {
	f := newFixture(t, withExportViews)
	for i := range 30 {
		f.put(cm("a", fmt.Sprint("x", i), "1", "at=l1"))
	}
	s := f.serve()
	stop := make(chan struct{})
	defer close(stop)
	informer := start(&rest.Config{Host: s.URL + path}, stop)
	seen := make(chan string, 100)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { seen <- "add " + nameAndVersion(o) },
		UpdateFunc: func(_, o any) { seen <- "update " + nameAndVersion(o) },
		DeleteFunc: func(o any) { seen <- "delete " + nameAndVersion(o) },
	}); err != nil {
		t.Fatal(err)
	}
	if !cache.WaitForCacheSync(stop, informer.HasSynced) {
		t.Fatal("not synced")
	}
	for range 30 {
		if got := limit.Receive(t, seen, "an event of x"); !strings.HasPrefix(got, "add x") {
			t.Fatal(got)
		}
	}
	f.put(cm("a", "x3", "2", "at=l1"))
	f.put(cm("a", "new", "1", "at=l1"))
	f.put(cm("a", "new", "1", "at=l1", "hold=no longer shown at the location"))
	f.del(cm("a", "new", ""))
	want := []string{"update x3 31", "add new 32", "update new 33", "delete new 34"}
	if strings.HasPrefix(path, string(route.Views)) {
		want = []string{"update x3 31", "add new 32", "delete new 33"}
	}
	for _, w := range want {
		select {
		case got := <-seen:
			if got != w {
				t.Errorf("saw %q, want %q", got, w)
			}
		case <-time.After(limit.Wait):
			t.Fatalf("waited for %q", w)
		}
	}
	if n := f.requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	if n := f.server.Fallbacks(); n != 0 {
		t.Errorf("%d encodings fell back to decoding", n)
	}
}

func nameAndVersion(o any) string {
	if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = d.Obj
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return err.Error()
	}
	return m.GetName() + " " + m.GetResourceVersion()
}
