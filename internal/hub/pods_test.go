package hub_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/sjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/protocol/wire"
)

var podsGVR = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func somePod(namespace, name string) *unstructured.Unstructured {
	return object("v1", "Pod", namespace, name, map[string]string{"what": "app"}, map[string]any{
		"spec": map[string]any{"nodeName": "n", "containers": []any{map[string]any{"name": "c", "image": "i"}}},
	})
}

// TestPodsGoOnceForAgents shows that for a location the two steps of a Pod's deletion are
// one removal, caused by a user.
func TestPodsGoOnceForAgents(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	r.create("s", podsGVR, somePod("default", "p"))
	s := r.join("a").open(0, "")
	if hello, _ := s.next(); hello.Hello == nil || hello.Hello.Count != 2 {
		t.Fatalf("first frame is %+v", hello)
	}
	if err := r.space("s").Resource(podsGVR).Namespace("default").Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.addConfigMap("two", map[string]string{"what": "app"}, "2")
	var got []string
	for len(got) < 2 {
		switch f, ok := s.next(); {
		case !ok:
			t.Fatalf("the stream ended after %v", got)
		case f.Mark != nil:
		case f.Del != nil:
			got = append(got, fmt.Sprintf("del %s %v", f.Del.Key, f.Del.Cause == wire.Deleted))
		case f.Put != nil:
			got = append(got, "put "+f.Put.Key)
		default:
			t.Fatalf("a frame of another kind: %+v", f)
		}
	}
	if want := "del s/core/pods/default/p true, put s/core/configmaps/default/two"; strings.Join(got, ", ") != want {
		t.Errorf("the location received %v, want %s", got, want)
	}
}

// TestPodsLeftBehind shows that a Pod that a crash left between the two steps of its
// deletion is deleted when a hub starts or sees it, and that a namespace with one can
// end.
func TestPodsLeftBehind(t *testing.T) {
	t.Parallel() // it waits much of the time
	dir := t.TempDir()
	r := start(t, dir)
	r.addSpace("s")
	r.create("s", namespacesGVR, object("v1", "Namespace", "", "n", nil, nil))
	marked := map[string][]byte{}
	for _, k := range []string{"default/seen", "default/started", "n/started"} {
		namespace, name, _ := strings.Cut(k, "/")
		r.create("s", podsGVR, somePod(namespace, name))
		row := r.row("o/s/core/pods/" + k)
		value, err := sjson.SetBytes(row.Value, "metadata.deletionTimestamp", time.Now().Add(-time.Minute).UTC().Format(time.RFC3339))
		if err == nil {
			value, err = sjson.SetBytes(value, "metadata.deletionGracePeriodSeconds", 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		marked[k] = value
	}
	put := func(log *etcd.Log, k string) {
		t.Helper()
		etcdKey := etcd.Prefix + "o/s/core/pods/" + k
		if _, err := log.Client().Put(t.Context(), etcdKey, string(marked[k])); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(k string) {
		t.Helper()
		namespace, name, _ := strings.Cut(k, "/")
		r.eventually(func() string {
			if _, err := r.space("s").Resource(podsGVR).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("%s is still there: %v", k, err)
			}
			return ""
		})
	}
	put(r.Log, "default/seen")
	gone("default/seen")

	r.stop()
	log, err := etcd.Open(context.Background(), etcd.Config{DataDir: dir, UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	put(log, "default/started")
	put(log, "n/started")
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	r = start(t, dir)
	gone("default/started")
	if err := r.space("s").Resource(namespacesGVR).Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually(func() string {
		if _, err := r.space("s").Resource(namespacesGVR).Get(t.Context(), "n", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the namespace is still there: %v", err)
		}
		return ""
	})
}
