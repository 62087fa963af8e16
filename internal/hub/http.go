package hub

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/advertise"
	"orrery.dev/orrery/internal/hub/agentapi"
	"orrery.dev/orrery/internal/hub/audit"
	"orrery.dev/orrery/internal/hub/auth"
	"orrery.dev/orrery/internal/hub/auth/credentials"
	"orrery.dev/orrery/internal/hub/kubeapi"
	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/hub/readiness"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/lib/process"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// front serves all of the hub's paths: it finds out what a request is about, has it wait
// until the hub serves, has access judge it, and passes it on.
type front struct {
	endpoints   *advertise.Endpoints
	gate        *readiness.Gate
	guard       *auth.Guard
	audit       *audit.Log
	requests    *requests
	requestInfo request.RequestInfoResolver
	// reads and writes bound the requests that are worked on at once, and share turns
	// between spaces and locations. Those of agents have their own.
	reads, writes respond.Limiter
	// looks are the turns of questions that agents answer.
	inspections respond.Limiter

	enrolments *auth.Enrolments
	kubernetes *kubeapi.Server
	agents     *agentapi.Server
	queries    *queries.Server
	tokens     *credentials.Server
	metrics    http.Handler
	// alive fails if the hub counts no more.
	alive   func() error
	backups *backups
}

// handler serves all of the hub's paths, taken as they are written: a ServeMux would
// redirect those with dots or with two slashes, to which a Kubernetes API gives an answer.
func (f *front) handler() http.Handler {
	others := f.named(f.requests.handler(f.gate.Handler(f.enrolling(f.guard.Handler(http.HandlerFunc(f.route))))))
	if f.audit == nil { // what it notes ends with a request: it is around what serves that, see auth.Guard
		others = respond.Shallow(others, mayLast)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = f.endpoints.Strip(r)
		switch r.URL.Path {
		case route.Healthz, route.Livez:
			kubeapi.ServeHealth(w, f.alive())
		case route.Readyz:
			f.gate.ServeReady(w, r)
		default:
			if r.Context().Err() != nil {
				rejectWhenStopping(w, r)
				return
			}
			if r.Method != http.MethodGet {
				growStack()
			}
			others.ServeHTTP(w, r)
		}
	})
}

// rejectWhenStopping asks clients on open connections to reconnect elsewhere during shutdown. Clients retry
// such a response on another connection. An informer whose watch starts and ends at once would assume that
// it failed, and list all objects again.
func rejectWhenStopping(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	respond.Error(w, r, apierrors.NewTooManyRequests("the hub stops", 1))
}

// mayLast reports whether a request may be a watch or the session of an agent. The path of the request alone
// does not always determine that.
func mayLast(r *http.Request) bool {
	return r.Method == http.MethodGet && (strings.Contains(r.URL.RawQuery, "watch") || strings.HasSuffix(r.URL.Path, "/"+route.Desired))
}

// named puts the request's root and RequestInfo into the context, and limits to its body.
func (f *front) named(next http.Handler) http.Handler {
	next = genericapifilters.WithRequestInfo(next, f.requestInfo)
	next = genericapifilters.WithRequestReceivedTimestamp(next)
	next = genericapifilters.WithAuditInit(next)
	rooted := auth.WithRoot(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { rooted.ServeHTTP(w, requestbody.Guard(r)) })
}

// enrolling serves agents that ask for a credential: they have none that is good, or one
// that is good for that alone.
func (f *front) enrolling(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		root, call := route.Parse(r.URL.Path)
		enrol, renew := r.URL.Path == route.Enrol, root.API == route.Agents && call == route.Renew
		if r.Method != http.MethodPost || !enrol && !renew {
			next.ServeHTTP(w, r)
			return
		}
		r, err := f.enrolments.Receive(w, r)
		if err != nil {
			respond.Error(w, r, err)
			return
		}
		// All share one queue, since the user is unknown before the authentication.
		f.writes.Serve(route.Root{API: route.Agents}, w, r, func(w http.ResponseWriter, r *http.Request) {
			if enrol {
				f.audit.Admitted(http.HandlerFunc(f.enrolments.ServeEnrol)).ServeHTTP(w, r)
				return
			}
			renewing := func(w http.ResponseWriter, r *http.Request) { f.enrolments.ServeRenew(w, r, key.Location(root.Name)) }
			f.audit.Admitted(http.HandlerFunc(renewing)).ServeHTTP(w, r)
		})
	})
}

func (f *front) route(w http.ResponseWriter, r *http.Request) {
	root := auth.RootOf(r.Context())
	switch root.API {
	case route.Spaces:
		f.kubernetes.ServeSpace(w, r, root)
	case route.Views:
		f.kubernetes.ServeView(w, r, root)
	case route.ReportViews:
		f.kubernetes.ServeReports(w, r, root)
	case route.Exports, route.Slices:
		f.kubernetes.ServeExportView(w, r, root)
	case route.Agents:
		f.agents.Serve(w, r, root)
	case route.Queries:
		limiter := f.reads
		switch _, question := route.Parse(r.URL.Path); question {
		case route.Endpoints:
			respond.JSON(w, f.endpoints.All())
			return
		case route.Diff:
			limiter = f.inspections
		case route.Status:
			if queries.Follows(r) {
				f.reads.Start(route.Space(key.Space(root.Name)), w, r, f.queries.ServeHTTP)
				return
			}
		}
		limiter.Serve(route.Space(key.Space(root.Name)), w, r, f.queries.ServeHTTP)
	default:
		f.serveOwn(w, r)
	}
}

// serveOwn serves the paths of the hub itself.
func (f *front) serveOwn(w http.ResponseWriter, r *http.Request) {
	if _, ok := route.Token(r.URL.Path); ok {
		f.writes.Serve(route.Root{}, w, r, f.tokens.ServeHTTP)
		return
	}
	if strings.HasPrefix(r.URL.Path, route.Profiles) {
		http.StripPrefix(route.Profiles, process.ProfileHandler()).ServeHTTP(w, r)
		return
	}
	switch r.URL.Path {
	case route.Metrics:
		f.metrics.ServeHTTP(w, r)
	case route.Backup:
		f.backups.ServeHTTP(w, r)
	case route.Version:
		kubeapi.ServeVersion(w, r)
	default:
		respond.Error(w, r, respond.NotFound(r.URL.Path))
	}
}

// newRequestInfoResolver knows the paths of Kubernetes APIs.
func newRequestInfoResolver() request.RequestInfoResolver {
	return lenient{&request.RequestInfoFactory{
		APIPrefixes:          sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api"),
	}}
}

// lenient resolves a RequestInfo as Kubernetes does. For a path that can't be resolved,
// for which Kubernetes answers with an internal error, it gives one without a resource.
type lenient struct{ request.RequestInfoResolver }

// NewRequestInfo implements request.RequestInfoResolver.
func (l lenient) NewRequestInfo(r *http.Request) (*request.RequestInfo, error) {
	info, err := l.RequestInfoResolver.NewRequestInfo(r)
	if err != nil {
		return &request.RequestInfo{Path: r.URL.Path, Verb: strings.ToLower(r.Method)}, nil //nolint:nilerr // the handlers answer such a path
	}
	return info, nil
}
