package hub

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"orrery.dev/orrery/internal/access"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/respond"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/wire"
)

// handler serves all of the hub's paths, taken as they are written: a ServeMux would
// redirect those with dots or with two slashes, to which a Kubernetes API gives an answer.
func (h *Hub) handler() http.Handler {
	others := h.named(h.onceLoaded(h.enrolling(h.access.Handler(http.HandlerFunc(h.route)))))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = h.endpoints.Strip(r)
		switch r.URL.Path {
		case route.Healthz, route.Livez:
			h.serveHealth(w, r)
		case route.Readyz:
			h.serveReady(w, r)
		default:
			others.ServeHTTP(w, r)
		}
	})
}

// named puts the request's root and RequestInfo into the context.
func (h *Hub) named(next http.Handler) http.Handler {
	next = genericapifilters.WithRequestInfo(next, lenient{h.requestInfo})
	next = genericapifilters.WithRequestReceivedTimestamp(next)
	next = genericapifilters.WithAuditInit(next)
	return access.WithRoot(next)
}

// onceLoaded refuses requests while the table is not loaded.
func (h *Hub) onceLoaded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.phase.serves() {
			respond.Error(w, r, apierrors.NewServiceUnavailable("the hub is loading its log"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// enrolling serves agents that ask for a credential: they have none that is good, or one
// that is good for that alone.
func (h *Hub) enrolling(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		root, call := route.Of(r.URL.Path)
		enrol, renew := r.URL.Path == route.Enrol, root.API == route.Agents && call == route.Renew
		if r.Method != http.MethodPost || !enrol && !renew {
			next.ServeHTTP(w, r)
			return
		}
		r, err := h.enrolments.Receive(w, r)
		if err != nil {
			respond.Error(w, r, err)
			return
		}
		// All share one queue: until they are judged nobody knows who they are.
		h.writes.Serve(route.Root{API: route.Agents}, w, r, func(w http.ResponseWriter, r *http.Request) {
			if enrol {
				h.seen(h.enrolments.ServeEnrol).ServeHTTP(w, r)
				return
			}
			h.seen(func(w http.ResponseWriter, r *http.Request) { h.enrolments.ServeRenew(w, r, key.Location(root.Name)) }).ServeHTTP(w, r)
		})
	})
}

func (h *Hub) serveHealth(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "ok") // a client that is gone needs no answer
}

func (h *Hub) serveReady(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set(wire.Header, wire.ProtocolVersion) // agents know a hub by it
	if !h.phase.serves() {
		http.Error(w, "loading the log", http.StatusServiceUnavailable)
		return
	}
	if _, ok := h.answers.state(); !ok {
		http.Error(w, "the log does not answer", http.StatusServiceUnavailable)
		return
	}
	if u := h.log.Usage(); u.Full {
		// The hub stays ready: reads and deletions work, and deletions make room.
		_, _ = io.WriteString(w, "ok, but the log is out of space: "+u.Why) // as above
		return
	}
	h.serveHealth(w, nil)
}

func (h *Hub) route(w http.ResponseWriter, r *http.Request) {
	root := access.RootOf(r.Context())
	switch root.API {
	case route.Spaces:
		h.kubernetes(w, r, root, h.serveSpace)
	case route.Views:
		h.kubernetes(w, r, root, h.serveView)
	case route.Agents:
		h.agents.Serve(w, r, root)
	case route.Questions:
		if _, question := route.Of(r.URL.Path); question == route.Endpoints {
			respond.JSON(w, h.endpoints.All())
			return
		}
		h.reads.Serve(route.Space(key.Space(root.Name)), w, r, h.questions.ServeHTTP)
	default:
		h.serveOwn(w, r)
	}
}

// serveOwn serves the paths of the hub itself.
func (h *Hub) serveOwn(w http.ResponseWriter, r *http.Request) {
	if _, ok := route.Token(r.URL.Path); ok {
		h.writes.Serve(route.Root{}, w, r, h.tokens.ServeHTTP)
		return
	}
	switch r.URL.Path {
	case route.Metrics:
		h.metrics.ServeHTTP(w, r)
	case route.Backup:
		h.serveBackup(w, r)
	case route.Version:
		h.serveVersion(w, r)
	default:
		respond.Error(w, r, respond.NotFound(r.URL.Path))
	}
}

// kubernetes serves a Kubernetes API behind the filters that k8s.io/apiserver's
// handlers expect.
func (h *Hub) kubernetes(w http.ResponseWriter, r *http.Request, root route.Root, serve func(http.ResponseWriter, *http.Request, route.Root)) {
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, root) })
	handler = h.withTurn(handler, root)
	handler = genericapifilters.WithWarningRecorder(handler)
	handler = genericapifilters.WithCacheControl(handler)
	// Watches are left out: their handler reads the timeout itself.
	watches := genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch"), sets.NewString())
	handler = genericapifilters.WithRequestDeadline(handler, nil, nil, watches, respond.Codecs(), respond.Timeout)
	handler = genericfilters.WithPanicRecovery(handler, h.requestInfo)
	handler.ServeHTTP(w, r)
}

// withTurn makes requests wait for their turn. A watch gives it back once it has sent its
// initial events: from then on it takes no work while nothing changes.
func (h *Hub) withTurn(next http.Handler, root route.Root) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		switch {
		case ok && info.Verb == "watch":
			h.startInTurn(root, w, r, next)
		case !ok || slices.Contains([]string{"get", "list"}, info.Verb):
			h.reads.Serve(root, w, r, next.ServeHTTP)
		default:
			h.writes.Serve(root, w, r, next.ServeHTTP)
		}
	})
}

// startInTurn serves a watch, which holds its turn until it signals that it has begun,
// but no longer than respond.Timeout.
func (h *Hub) startInTurn(flow route.Root, w http.ResponseWriter, r *http.Request, next http.Handler) {
	leave, err := h.reads.Queue.Enter(r.Context(), flow.String())
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	begun := flowcontrol.NewInitializationSignal()
	defer begun.Signal()
	once := sync.OnceFunc(leave)
	late := time.AfterFunc(respond.Timeout, once)
	go func() { // ends with the watch at the latest
		begun.Wait()
		late.Stop()
		once()
	}()
	next.ServeHTTP(w, r.WithContext(flowcontrol.WithInitializationSignal(r.Context(), begun)))
}

func newRequestInfoResolver() *request.RequestInfoFactory {
	return &request.RequestInfoFactory{
		APIPrefixes:          sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api"),
	}
}
