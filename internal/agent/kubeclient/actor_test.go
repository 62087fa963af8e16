package kubeclient

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestReadOnly checks that in a read-only context no request is sent that would change the target.
func TestReadOnly(t *testing.T) {
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Method)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"1"}}`))
	}))
	defer server.Close()
	c, err := New(&rest.Config{Host: server.URL}, "test", 1, func(string, int) {}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, place := ReadOnly(t.Context(), func() bool { return true }), Place{Resource: key.NewResource("", "configmaps"), Version: "v1"}
	id := key.Identity{Resource: place.Resource, Namespace: "n", Name: "a"}
	for name, one := range map[string]struct {
		do    func() error
		reads bool
	}{
		"get":              {func() error { _, err := c.Get(ctx, place, id); return err }, true},
		"get all":          {func() error { _, err := c.GetAll(ctx, place, id); return err }, true},
		"dry run":          {func() error { _, err := c.TryApply(ctx, place, id, "m", nil); return err }, true},
		"dry creation":     {func() error { return c.TryCreate(ctx, place, id, "m", nil) }, true},
		"apply":            {func() error { _, err := c.Apply(ctx, place, id, "m", nil); return err }, false},
		"merge":            {func() error { _, err := c.Merge(ctx, "mark", place, id, "m", nil); return err }, false},
		"create namespace": {func() error { return c.CreateNamespace(ctx, "n", "o") }, false},
		"remove":           {func() error { _, err := c.Remove(ctx, place, id, "u", metav1.DeletePropagationBackground); return err }, false},
	} {
		sent = nil
		err := one.do()
		if refused := errors.Is(err, ErrReadOnly); refused == one.reads || one.reads && err != nil || len(sent) > 0 != one.reads {
			t.Errorf("%s: error %v, requests %v", name, err, sent)
		}
	}
}
