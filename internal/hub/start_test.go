package hub_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/cli/inprocess"
	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/test/support/limit"
)

const (
	timeout = limit.Wait
	// batchDelay is how soon the hub writes counts.
	batchDelay = 20 * time.Millisecond
)

// running is a hub in this process.
type running struct {
	*inprocess.Hub
	hub.Internals
	t    testing.TB
	dir  string
	conf *hub.Config
}

// start runs a hub on a data directory until the test ends or stop is called.
func start(t testing.TB, dir string, configure ...func(*hub.Config)) *running {
	t.Helper()
	return startPrepared(t, dir, func(hub.Internals) {}, configure...)
}

// startPrepared prepares the hub before it runs.
func startPrepared(t testing.TB, dir string, prepare func(hub.Internals), configure ...func(*hub.Config)) *running {
	t.Helper()
	config := hub.DefaultConfig()
	config.DataDir, config.Listen, config.UnsafeNoFsync = dir, "127.0.0.1:0", true
	config.BatchDelay, config.RoomRetry = batchDelay, 200*time.Millisecond
	config.PingTimeout, config.QueueTimeout, config.InspectTimeout, config.Lease = limit.Never, limit.Never, limit.Never, limit.Never
	config.Disconnected = limit.Never // a location without a session is not lost because the test is slow
	config.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	for _, c := range configure {
		c(&config)
	}
	r := &running{t: t, dir: dir, conf: &config}
	config.Made(func(p hub.Internals) { r.Internals = p; prepare(p) })
	var w inprocess.World
	var err error
	if r.Hub, err = w.StartHub(limit.Context(t, "the hub serves"), "hub", config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.stop()
		*r = running{t: t} // what a test refers to is kept until all tests are over
	})
	return r
}

// current waits until the table shows all that was acknowledged before.
func (r *running) current() {
	r.t.Helper()
	ctx := limit.Context(r.t, "the table is current")
	err := r.WaitCommitted(ctx)
	for errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // the hub waits for less time than a test
		err = r.WaitCommitted(ctx)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// row is a row of the table once that shows all that was acknowledged before; it is there.
func (r *running) row(k string) *table.Row {
	r.t.Helper()
	r.current()
	row, _ := r.Table.Get(k)
	if row == nil {
		r.t.Fatalf("no row %q", k)
	}
	return row
}

// stop stops the hub, if it runs.
func (r *running) stop() {
	if err := r.Stop(); err != nil {
		r.t.Errorf("the hub ended with: %v", err)
	}
}

func (r *running) config(path string) *rest.Config {
	r.t.Helper()
	c, err := r.Config(path)
	if err != nil {
		r.t.Fatal(err)
	}
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return persistent{next} })
	return c
}

// operator sends requests that are written out in full.
func (r *running) operator() *http.Client {
	r.t.Helper()
	c, err := r.Client()
	if err != nil {
		r.t.Fatal(err)
	}
	c.Transport = persistent{c.Transport}
	return c
}

func (r *running) space(s key.Space) dynamic.Interface {
	r.t.Helper()
	d, err := dynamic.NewForConfig(r.config(route.Space(s).String()))
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

var (
	spacesGVR      = v1alpha1.GroupVersion.WithResource("spaces")
	locationsGVR   = v1alpha1.GroupVersion.WithResource("locations")
	placementsGVR  = v1alpha1.GroupVersion.WithResource("placements")
	customizersGVR = v1alpha1.GroupVersion.WithResource("customizers")
	summariesGVR   = v1alpha1.GroupVersion.WithResource("summaries")
	namespacesGVR  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMapsGVR  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

func object(apiVersion, kind, namespace, name string, labels map[string]string, fields map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(labels)
	maps.Copy(u.Object, fields)
	return u
}

func (r *running) create(s key.Space, gvr schema.GroupVersionResource, u *unstructured.Unstructured) *unstructured.Unstructured {
	r.t.Helper()
	out, err := r.space(s).Resource(gvr).Namespace(u.GetNamespace()).Create(r.t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatalf("create %s %q: %v", gvr.Resource, u.GetName(), err)
	}
	return out
}

func (r *running) addSpace(s key.Space) {
	r.t.Helper()
	r.create(key.Root, spacesGVR, object("orrery.dev/v1alpha1", "Space", "", string(s), nil, nil))
}

func (r *running) addLocation(l key.Location, labels map[string]string) {
	r.t.Helper()
	r.create(key.Root, locationsGVR, object("orrery.dev/v1alpha1", "Location", "", string(l), labels, nil))
}

// addConfigMap returns the revision that made it.
func (r *running) addConfigMap(name string, labels map[string]string, value string) int64 {
	r.t.Helper()
	made := r.create("s", configMapsGVR, object("v1", "ConfigMap", "default", name, labels, map[string]any{"data": map[string]any{"k": value}}))
	rev, err := strconv.ParseInt(made.GetResourceVersion(), 10, 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return rev
}

// addPlacement places everything labelled what=LABEL on locations labelled where=LABEL.
func (r *running) addPlacement(s key.Space, name, where, what string, extra map[string]any) {
	r.t.Helper()
	test := map[string]any{"labelSelectors": []any{map[string]any{"matchLabels": map[string]any{"what": what}}}}
	maps.Copy(test, extra)
	r.create(s, placementsGVR, object("orrery.dev/v1alpha1", "Placement", "", name, nil, map[string]any{"spec": map[string]any{
		"locations": []any{map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"where": where}}}},
		"downsync":  []any{test},
	}}))
}
