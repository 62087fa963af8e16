package kubeapi

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericfilters "k8s.io/apiserver/pkg/server/filters"

	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/protocol/route"
)

// filtered serves a Kubernetes API behind the filters that k8s.io/apiserver's
// handlers expect.
func (v *Server) filtered(w http.ResponseWriter, r *http.Request, root route.Root, serve func(http.ResponseWriter, *http.Request, route.Root)) {
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, root) })
	handler = v.withTurn(handler, root)
	handler = genericapifilters.WithWarningRecorder(handler)
	handler = genericapifilters.WithCacheControl(handler)
	// The deadline does not apply to watches, whose handler reads the timeout itself.
	watches := genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch"), sets.NewString())
	handler = genericapifilters.WithRequestDeadline(handler, nil, nil, watches, respond.Codecs(), respond.Timeout)
	handler = genericfilters.WithPanicRecovery(handler, v.config.RequestInfo)
	handler.ServeHTTP(w, r)
}

// withTurn makes requests wait for their turn.
func (v *Server) withTurn(next http.Handler, root route.Root) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		switch {
		case ok && info.Verb == "watch":
			v.config.Reads.Start(root, w, r, next.ServeHTTP)
		case !ok || slices.Contains([]string{"get", "list"}, info.Verb):
			v.config.Reads.Serve(root, w, r, next.ServeHTTP)
		default:
			v.config.Writes.Serve(root, w, r, next.ServeHTTP)
		}
	})
}
