package hub

import (
	"bufio"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/auth"
	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/protocol/route"
)

// requests counts requests by resource and verb, never by user or object.
type requests struct {
	total   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	open    *prometheus.GaugeVec
}

func newRequests() *requests {
	return &requests{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orrery_http_requests_total", Help: "Requests that have ended, by API, verb or call, and status code; 0: without an answer.",
		}, []string{"api", "verb", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "orrery_http_request_duration_seconds", Help: "How long requests took, but those that last, as watches and sessions do.",
			Buckets: []float64{.005, .02, .1, .5, 2, 10, 60},
		}, []string{"api", "verb"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "orrery_http_requests_in_flight", Help: "Requests that have not ended, watches and sessions included.",
		}, []string{"api", "verb"}),
	}
}

func (q *requests) register(registry *prometheus.Registry) {
	registry.MustRegister(q.total, q.seconds, q.open)
}

// handler counts the requests that next serves, whose contexts have a root and a RequestInfo.
func (q *requests) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api, verb, lasts := classify(r)
		open, begun := q.open.WithLabelValues(api, verb), time.Now()
		open.Inc()
		answer := &answer{ResponseWriter: w}
		defer respond.After(r.Context(), func() {
			open.Dec()
			q.total.WithLabelValues(api, verb, strconv.Itoa(answer.code)).Inc()
			if !lasts {
				q.seconds.WithLabelValues(api, verb).Observe(time.Since(begun).Seconds())
			}
		})
		next.ServeHTTP(answer, r)
	})
}

// other is the verb of what is not known: clients choose those.
const other = "other"

// asked is what a request asks for, by names that are few, and whether its answer lasts.
func classify(r *http.Request) (api, verb string, lasts bool) {
	root, below := route.Parse(r.URL.Path)
	root.API = auth.RootOf(r.Context()).API
	switch root.API {
	case route.Agents:
		verb = oneOf(below, route.Desired, route.Walk, route.Fetch, route.LogIdentity, route.Namespaces, route.AgentStatus, route.Renew,
			route.Reports, route.ReportsWalk, route.ReportsFetch, route.Inspected)
		return "agents", verb, verb == route.Desired
	case route.Queries:
		verb = oneOf(below, route.Status, route.Why, route.Waiting, route.Render, route.Diff, route.Endpoints)
		return "questions", verb, verb == route.Status && queries.Follows(r)
	case "":
		return "hub", ownCall(r.URL.Path), false
	}
	verb = other
	if info, ok := request.RequestInfoFrom(r.Context()); ok && info.IsResourceRequest {
		verb = oneOf(info.Verb, "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
	} else if r.Method == http.MethodGet {
		verb = "discover"
	}
	return apiNames[root.API], verb, verb == "watch"
}

// apiNames are what metrics call the APIs of Kubernetes.
var apiNames = map[route.API]string{
	route.Spaces: "spaces", route.Views: "views", route.ReportViews: "reports", route.Exports: "exports", route.Slices: "slices",
}

// ownCall is what metrics call a path of the hub itself.
func ownCall(path string) string {
	if _, ok := route.Token(path); ok {
		return "tokens"
	}
	switch {
	case path == route.Enrol:
		return "enroll"
	case path == route.Backup:
		return "backup"
	case strings.HasPrefix(path, route.Profiles):
		return "profiles"
	}
	return oneOf(strings.TrimPrefix(path, "/"), "metrics", "version")
}

// oneOf is a text if it is one of those that are known.
func oneOf(text string, known ...string) string {
	if slices.Contains(known, text) {
		return text
	}
	return other
}

// answer notes the status code of an answer.
type answer struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
	a.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	if a.code == 0 {
		a.code = http.StatusOK
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Flush implements http.Flusher, which the handlers of watches ask for.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError is for http.ResponseController.
func (a *answer) FlushError() error { return http.NewResponseController(a.ResponseWriter).Flush() }

// Hijack implements http.Hijacker, which watches over WebSocket ask for.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.code = http.StatusSwitchingProtocols
	return http.NewResponseController(a.ResponseWriter).Hijack()
}

// CloseNotify implements http.CloseNotifier, without which the filters of Kubernetes take a
// writer for one that can't flush.
func (a *answer) CloseNotify() <-chan bool {
	if n, ok := a.ResponseWriter.(http.CloseNotifier); ok { //nolint:staticcheck // see above
		return n.CloseNotify()
	}
	return make(chan bool)
}
