package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/protocol/key"
)

// weather is how well a cluster answers.
type weather struct {
	// refuse, break and lose are how often, in a hundred requests, the answer is
	// 429 or 503, an error before anything was done, and one after it was done;
	// hang how often there is no answer.
	refuse, breaks, lose, hang int
	// slow is the longest time to an answer, lag that of a watch.
	slow, lag time.Duration
	// every is the time between two requests that the cluster takes; it refuses the others, or, if it queues,
	// answers them one after the other.
	every  time.Duration
	queues bool
	// hollow discovery names no groups, and nothing is served; dark answers nothing.
	hollow, dark bool
	// paints reports whether admission changes a value of applied objects.
	paints bool
	// fixes reports whether admission changes a value that is immutable afterwards.
	fixes bool
}

// lifeline is the connection of one run of an agent to the cluster.
type lifeline struct {
	*cluster
	dead atomic.Bool
	// last is how many more changes it may make before it dies in the middle of
	// one; negative: any number.
	last int
	die  func()
	// far reports whether requests get no responses any more. saw has the revisions at which
	// this agent has listed; nil if no test reads them. witness receives each change before
	// it is checked.
	far     atomic.Bool
	saw     map[collection]uint64
	witness func(verb string, before, after *thing)
	// onRequest is called for each request before it has any effect, without the lock; nil: it is not.
	onRequest func(r *http.Request)
}

var errCut = errors.New("connection reset by peer")

func answerOf(code int, body []byte) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body))}
}

func failed(err *apierrors.StatusError) *http.Response {
	b, jerr := json.Marshal(struct {
		Kind string `json:"kind"`
		metav1.Status
	}{"Status", err.ErrStatus})
	if jerr != nil {
		panic(jerr)
	}
	r := answerOf(int(err.ErrStatus.Code), b)
	if d := err.ErrStatus.Details; d != nil && d.RetryAfterSeconds > 0 {
		r.Header.Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	return r
}

// RoundTrip implements http.RoundTripper.
func (l *lifeline) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	w := l.weather
	luck, wait := l.rng.IntN(100), time.Duration(0)
	if w.slow > 0 {
		wait = time.Duration(l.rng.Int64N(int64(w.slow)))
	}
	l.mu.Unlock()
	if l.far.Load() {
		return l.unheard(r, body, luck)
	}
	hang := luck >= w.refuse+w.breaks+w.lose && luck < w.refuse+w.breaks+w.lose+w.hang
	l.mu.Lock()
	hang = hang || l.hangs != "" && strings.HasPrefix(r.URL.Path, "/apis/"+l.hangs+"/")
	onRequest := l.onRequest
	l.mu.Unlock()
	if onRequest != nil {
		onRequest(r)
	}
	if hang {
		wait = 2 * time.Minute
	}
	l.mu.Lock()
	refused := false
	if w.every > 0 {
		next := l.taken.Add(w.every)
		switch now := time.Now(); {
		case !now.Before(next):
			l.taken = now
		case w.queues:
			l.taken = next
			wait += next.Sub(now)
		default:
			refused = true
		}
	}
	l.mu.Unlock()
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w = l.weather
	switch {
	case r.Context().Err() != nil:
		return nil, r.Context().Err()
	case l.dead.Load(), w.dark, luck < w.breaks, hang:
		return nil, errCut
	case refused:
		return failed(apierrors.NewTooManyRequests("later", 1)), nil
	case luck < w.breaks+w.refuse && luck%2 == 0:
		return failed(apierrors.NewTooManyRequests("slow down", 1+l.rng.IntN(3))), nil
	case luck < w.breaks+w.refuse:
		return failed(apierrors.NewServiceUnavailable("not now")), nil
	}
	resp := l.answer(r, body)
	if l.dead.Load() || luck < w.breaks+w.refuse+w.lose && r.Method != http.MethodGet {
		return nil, errCut
	}
	return resp, nil
}

func (l *lifeline) answer(r *http.Request, body []byte) *http.Response {
	p := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case l.aggregated == "down" && strings.HasPrefix(r.URL.Path, "/apis/example.com/"):
		return failed(apierrors.NewServiceUnavailable("service unavailable"))
	case p[0] == "version":
		return reply(map[string]any{"gitVersion": "v1.99.0"})
	case p[0] == "openapi":
		return reply(map[string]any{"paths": map[string]any{}})
	case p[0] == "api" && len(p) <= 2, p[0] == "apis" && (len(p) == 1 || len(p) == 3):
		return l.discover(p, strings.HasPrefix(r.Header.Get("Accept"), "application/json;g=apidiscovery.k8s.io"))
	}
	prefix := 2
	group := ""
	if p[0] == "apis" {
		prefix, group = 3, p[1]
	}
	version := p[prefix-1]
	p = p[prefix:]
	if group == leaseGroup && l.leases != nil {
		return l.answerLease(r, p[len(p)-1], body)
	}
	id := key.Identity{}
	if len(p) > 2 && p[0] == "namespaces" {
		id.Namespace, p = p[1], p[2:]
	}
	id.Resource = key.NewResource(group, p[0])
	if group == aliasGroup { // the same objects once more
		id.Resource = key.NewResource("", p[0])
	}
	if len(p) > 1 {
		id.Name = p[1]
	}
	if l.weather.hollow || !l.serves(id.Resource) || !slices.Contains(l.versionsOf(group), version) {
		return failed(apierrors.NewGenericServerResponse(404, "", schema.GroupResource{}, "", "404 page not found", 0, true))
	}
	return l.object(r, id, body)
}

func reply(v any) *http.Response {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return answerOf(http.StatusOK, b)
}

// discover answers discovery requests.
func (l *lifeline) discover(p []string, all bool) *http.Response {
	byGroup := map[string][]kindOf{}
	for _, s := range kindsServed {
		if !l.weather.hollow && l.serves(s.Resource) {
			byGroup[s.APIGroup()] = append(byGroup[s.APIGroup()], s)
		}
	}
	if l.aliased {
		byGroup[aliasGroup] = []kindOf{{aliasMaps, "v1", "ConfigMap", true}}
	}
	verbs := []string{"get", "list", "watch", "create", "patch", "delete"}
	group := ""
	if p[0] == "apis" && len(p) == 3 {
		group = p[1]
	}
	switch {
	case all:
		var items []apidiscovery.APIGroupDiscovery
		for _, g := range slices.Sorted(maps.Keys(byGroup)) {
			if (g == "") != (p[0] == "api") {
				continue
			}
			d := apidiscovery.APIGroupDiscovery{Versions: []apidiscovery.APIVersionDiscovery{{Version: l.versionsOf(g)[0], Freshness: apidiscovery.DiscoveryFreshnessCurrent}}}
			if g != "" && g == l.stale || l.aggregated == "down" && g == "example.com" {
				d.Versions[0].Freshness = "Stale"
			}
			d.Name = g
			for _, s := range byGroup[g] {
				r := apidiscovery.APIResourceDiscovery{Resource: s.Resource.Resource, Verbs: verbs, ResponseKind: &metav1.GroupVersionKind{Kind: s.kind}}
				if s.namespaced {
					r.Scope = apidiscovery.ScopeNamespace
				}
				d.Versions[0].Resources = append(d.Versions[0].Resources, r)
			}
			items = append(items, d)
		}
		return reply(map[string]any{"items": items})
	case p[0] == "api" && len(p) == 1:
		return reply(metav1.APIVersions{Versions: []string{"v1"}})
	case len(p) == 1:
		var list metav1.APIGroupList
		for _, g := range slices.Sorted(maps.Keys(byGroup)) {
			if g != "" {
				v := l.versionsOf(g)[0]
				list.Groups = append(list.Groups, metav1.APIGroup{
					Name: g, PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: g + "/" + v, Version: v},
				})
			}
		}
		return reply(list)
	}
	if p[0] == "apis" && !slices.Contains(l.versionsOf(group), p[2]) {
		return failed(apierrors.NewGenericServerResponse(404, "", schema.GroupResource{}, "", "404 page not found", 0, true))
	}
	list := metav1.APIResourceList{GroupVersion: schema.GroupVersion{Group: group, Version: l.versionsOf(group)[0]}.String()}
	for _, s := range byGroup[group] {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: s.Resource.Resource, Namespaced: s.namespaced, Kind: s.kind, Verbs: verbs})
	}
	return reply(list)
}

// object answers requests for objects of a served resource.
func (l *lifeline) object(r *http.Request, id key.Identity, body []byte) *http.Response {
	q, gr := r.URL.Query(), schema.GroupResource{Group: id.APIGroup(), Resource: id.Resource.Resource}
	now := l.objects[id.String()]
	l.requests[id]++
	if !slices.ContainsFunc(kindsServed, func(s kindOf) bool { return s.Resource == id.Resource }) {
		return failed(apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "404 page not found", 0, true))
	}
	switch {
	case r.Method == http.MethodGet && q.Get("watch") != "":
		return l.openWatch(r, id.Resource)
	case r.Method == http.MethodGet && id.Name == "":
		return l.list(id, q, r.Header.Get("Accept") == "application/json")
	case r.Method == http.MethodPost:
		return l.create(id, q, body)
	case r.Method == http.MethodPatch && r.Header.Get("Content-Type") == "application/apply-patch+yaml":
		return l.patchApply(id, q, body)
	case now == nil:
		return failed(apierrors.NewNotFound(gr, id.Name))
	case r.Method == http.MethodGet && r.Header.Get("Accept") == "application/json":
		return answerOf(http.StatusOK, now.whole())
	case r.Method == http.MethodGet:
		return answerOf(http.StatusOK, now.json)
	case r.Method == http.MethodPatch:
		return l.patchMeta(now, q, body)
	}
	var o metav1.DeleteOptions
	if err := json.Unmarshal(body, &o); err != nil {
		panic(err)
	}
	switch {
	case o.Preconditions == nil || o.Preconditions.UID == nil:
		l.checkChange("delete without a precondition", now, nil)
	case string(*o.Preconditions.UID) != now.uid:
		return failed(apierrors.NewConflict(gr, id.Name, errors.New("the UID in the precondition is another")))
	case now.terminating && id.Resource == key.Namespaces:
		return failed(apierrors.NewConflict(gr, id.Name, errors.New("the system is ensuring all content is removed")))
	}
	if foreground := o.PropagationPolicy != nil && *o.PropagationPolicy == metav1.DeletePropagationForeground; !now.terminating {
		l.done("delete", now, nil)
		l.removeSlowly(now, foreground)
	} else if now.waits && !foreground {
		l.set(id.String(), nil)
	}
	if left := l.objects[id.String()]; left != nil {
		return answerOf(http.StatusOK, left.json)
	}
	return reply(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Status: metav1.StatusSuccess})
}

// list answers with one page.
func (l *lifeline) list(id key.Identity, q url.Values, full bool) *http.Response {
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil {
		panic(err)
	}
	l.lists[id.Resource]++
	if l.closed[id.Resource] {
		return failed(apierrors.NewForbidden(schema.GroupResource{Group: id.APIGroup(), Resource: id.Resource.Resource}, "", errors.New("no")))
	}
	if l.failing[id.Resource] {
		return failed(apierrors.NewInternalError(errors.New("no")))
	}
	matches := selected(q.Get("labelSelector"))
	var items []json.RawMessage // of nothing it is null, as a kube-apiserver has it
	more := ""
	for _, k := range slices.Sorted(maps.Keys(l.objects)) {
		o := l.objects[k]
		if o.id.Resource != id.Resource || id.Namespace != "" && o.id.Namespace != id.Namespace || !matches(o) || k <= q.Get("continue") {
			continue
		}
		if len(items) == limit {
			break
		}
		more = k
		items = append(items, o.body(full))
	}
	if len(items) < limit {
		more = ""
	}
	if q.Get("labelSelector") == "" {
		l.listed[collection{id.Resource, id.Namespace}] = l.revision
		if l.saw != nil {
			l.saw[collection{id.Resource, id.Namespace}] = l.revision
		}
	}
	return reply(map[string]any{
		"metadata": map[string]any{"resourceVersion": fmt.Sprint(l.revision), "continue": more}, "items": items,
	})
}

// selected understands the selectors that agents use.
func selected(selector string) func(*thing) bool {
	if name, values, ok := strings.Cut(strings.TrimSuffix(selector, ")"), " in ("); ok {
		return func(o *thing) bool { return slices.Contains(strings.Split(values, ","), o.meta("labels", name)) }
	}
	if name, value, ok := strings.Cut(selector, "!="); ok {
		return func(o *thing) bool { return o.meta("labels", name) != value }
	}
	if name, value, ok := strings.Cut(selector, "="); ok {
		return func(o *thing) bool { return o.meta("labels", name) == value }
	}
	return func(*thing) bool { return true }
}
