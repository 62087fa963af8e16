package read

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestWrittenDirectly checks that watches without the handlers of k8s.io/apiserver send the same
// bytes as these.
func TestWrittenDirectly(t *testing.T) {
	for _, accept := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		for gvr, path := range map[schema.GroupVersionResource]string{configMaps: "api/v1/configmaps", scalersV1: "apis/autoscaling/v1/horizontalpodautoscalers"} {
			inBubble(t, func(t *testing.T) {
				f := newFixture(t)
				defer f.server.Close()
				o := func(value int) sample {
					return sample{gvr: gvr, space: "a", namespace: "default", name: "x", content: map[string]any{"spec": map[string]any{"maxReplicas": value}}}
				}
				f.put(cm("b", "x", "1"))
				f.put(o(1))
				f.put(o(2))
				f.del(o(2))
				byHandlers, direct := recorded(t, f, gvr, path, accept, false), recorded(t, f, gvr, path, accept, true)
				if byHandlers != direct || !strings.Contains(direct, "DELETED") || !strings.Contains(direct, "BOOKMARK") {
					t.Errorf("%s as %s: written directly\n%q, by the handlers\n%q", path, accept, direct, byHandlers)
				}
			})
		}
	}
}

// recorded is what a watch of a space writes until it ends.
func recorded(t *testing.T, f *fixture, gvr schema.GroupVersionResource, path, accept string, direct bool) string {
	t.Helper()
	r := f.reader(Space("a"), gvr)
	scope := r.view.kind.Scope("")
	handler := handlers.ListResource(r, r, scope, true, time.Minute)
	serve := cuttable(handler)
	if direct {
		serve = watching(r, scope, handler)
	}
	req := httptest.NewRequest(http.MethodGet, "/"+path+"?watch=1&resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=3", http.NoBody)
	req.Header.Set("Accept", accept)
	info := &request.RequestInfo{IsResourceRequest: true, Verb: "watch", APIGroup: gvr.Group, APIVersion: gvr.Version, Resource: gvr.Resource, Path: "/" + path}
	answer := httptest.NewRecorder()
	serve(answer, req.WithContext(request.WithRequestInfo(audit.WithAuditContext(t.Context()), info)))
	return fmt.Sprintln(answer.Code, answer.Header()["Content-Type"]) + answer.Body.String()
}
