package kubeclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

const (
	// requestTimeout bounds every request to the target but watches.
	requestTimeout = time.Minute
	// maxAnswer bounds an answer that is read into memory, in bytes.
	maxAnswer = 64 << 20
	// smallAnswer and smallList ask for metadata only.
	smallAnswer = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	smallList   = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	fullAnswer  = "application/json"
	applyPatch  = "application/apply-patch+yaml"
	mergePatch  = "application/merge-patch+json"
)

// Client makes requests to the cluster: reads, lists, watches and writes of objects by itself,
// discovery and requests for Leases by its embedded parts. It is safe for concurrent use.
type Client struct {
	*requester
	*Discovery
	*LeaseClient
	// Advanced is the time at which a watch of a built-in kind last received a later revision than before, which the
	// API server has from its etcd. An API server that has lost its etcd still sends bookmarks, with an old revision.
	Advanced Moment
}

// Discovery returns the APIs, resources and definitions that the target serves.
type Discovery struct{ *requester }

// LeaseClient makes requests for Leases, which are sent whether or not the agent holds one.
type LeaseClient struct {
	*requester
	discovery *Discovery
}

// requester sends requests to the target, within the limits of the target and of the agent's
// Lease.
type requester struct {
	base  *url.URL
	agent string
	count func(verb string, code int)
	log   *slog.Logger
	// credentials has the HTTP client.
	credentials *credentials
	line        *line
	// held returns the right to write to the target; nil if that needs no Lease.
	held Held
	// unanswered is the time, in nanoseconds, at which a write was last abandoned without a
	// response.
	unanswered atomic.Int64
	// multiplexed reports whether the last response used HTTP/2.
	multiplexed atomic.Bool
	// Limiter limits the concurrent requests for single objects, and the workers.
	Limiter *Limiter
}

// New returns a client with the configuration's transport, without a client-side rate
// limit. agent is its User-Agent, and most the maximum of concurrent requests for objects. count is called after
// each request; its code is 0 if there was no response.
func New(config *rest.Config, agent string, most int, count func(verb string, code int), log *slog.Logger) (*Client, error) {
	credentials, err := newCredentials(config, log)
	if err != nil {
		return nil, fmt.Errorf("make client for target: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("parse target %q: %w", config.Host, err)
	}
	r := &requester{base: base, credentials: credentials, line: newLine(), agent: agent, count: count, log: log, Limiter: newLimiter(most)}
	discovery := &Discovery{r}
	return &Client{requester: r, Discovery: discovery, LeaseClient: &LeaseClient{r, discovery}}, nil
}

// Reload makes the client read the configuration of the target again, at most every 30 s and when the
// target rejects the credentials. It must be called before the first request.
func Reload(t *Client, read func() (*rest.Config, error)) { t.credentials.read = read }

// Place is a resource in one version, as the path of a request needs it.
type Place struct {
	key.Resource
	Version string
}

// GroupVersion returns the apiVersion of objects of the resource.
func (p Place) GroupVersion() string {
	if g := p.APIGroup(); g != "" {
		return g + "/" + p.Version
	}
	return p.Version
}

// collection returns the path of the resource, in a namespace if one is given.
func (p Place) collection(namespace string) string {
	root := "/api/"
	if p.APIGroup() != "" {
		root = "/apis/"
	}
	root += p.GroupVersion()
	if namespace != "" {
		root += "/namespaces/" + namespace
	}
	return root + "/" + p.Resource.Resource
}

func (p Place) object(id key.Identity) string { return p.collection(id.Namespace) + "/" + id.Name }

// request is one request to the target.
type request struct {
	verb, method string
	path         string
	query        url.Values
	accept       string
	content      string
	body         []byte
	// most bounds the answer, in bytes; 0: maxAnswer does.
	most int64
	// free is set for requests for Leases, which an agent sends whether or not it holds one.
	free bool
}

// changes reports whether the request would change the target.
func (r *request) changes() bool { return r.method != http.MethodGet && r.query.Get("dryRun") == "" }

// Silence returns the time after which a request over a broken connection fails; 0 if it is
// unknown. k8s.io/apimachinery/pkg/util/net sets up the transport. With HTTP/2 it pings an idle
// connection after 30 s and waits 15 s for the response, unless its environment variables change
// these times.
func (t *requester) Silence() time.Duration {
	if !t.multiplexed.Load() || os.Getenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS") != "" || os.Getenv("HTTP2_PING_TIMEOUT_SECONDS") != "" {
		return 0
	}
	return 45 * time.Second
}

// queues reports whether a request is sent through the line: discovery, lists, watches, and gets that no worker
// sends. Requests for Leases never wait.
func queues(ctx context.Context, r *request) bool {
	if r.free || r.method != http.MethodGet {
		return false
	}
	return r.verb != "get" || ctx.Value(worker{}) == nil
}

// open sends a request and returns the answer's body, or a StatusError. A request that the target did not
// authenticate, or whose certificate the agent does not trust, is sent again if there are other
// credentials by now.
func (t *requester) open(ctx context.Context, r request) (io.ReadCloser, error) {
	send := func() (io.ReadCloser, error) {
		return t.credentials.use(ctx, func(client *http.Client) (io.ReadCloser, error) { return sendOnce(ctx, t, client, r) })
	}
	if !queues(ctx, &r) {
		return send()
	}
	return t.line.send(ctx, send)
}

// sendOnce sends a request by an HTTP client.
func sendOnce(ctx context.Context, t *requester, client *http.Client, r request) (io.ReadCloser, error) {
	u := *t.base
	u.Path = path.Join("/", t.base.Path, r.path)
	u.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.verb, r.path, err)
	}
	req.Header.Set("User-Agent", t.agent)
	if account := actor(ctx); account != "" {
		req.Header.Set(transport.ImpersonateUserHeader, account)
	}
	req.Header.Set("Accept", r.accept)
	// Responses are not compressed, as for Kubernetes' own controllers: the agent is close to its cluster, and
	// compression would be a large part of the API server's work for a list.
	req.Header.Set("Accept-Encoding", "identity")
	if r.content != "" {
		req.Header.Set("Content-Type", r.content)
	}
	resp, err := client.Do(req)
	if err != nil {
		if !errors.Is(err, context.Canceled) { // a canceled request does not count as unanswered
			t.count(r.verb, 0)
		}
		return nil, fmt.Errorf("%s %s: %w", r.verb, r.path, err)
	}
	t.multiplexed.Store(resp.ProtoMajor >= 2)
	t.count(r.verb, resp.StatusCode)
	if resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	return nil, statusError(r.verb, resp)
}

// do sends a request and decodes the answer into v.
func (t *requester) do(ctx context.Context, r request, v any) error {
	if r.verb == "list" || r.verb == "discover" { // the time for these depends on their size, so the limiter cannot learn from it
		return t.exchange(ctx, r, v)
	}
	if err := t.Limiter.send(ctx); err != nil {
		return fmt.Errorf("%s %s: %w", r.verb, r.path, err)
	}
	start := time.Now()
	var err error
	if r.changes() && isReadOnly(ctx) { // checked after the wait, which may have been long
		err = fmt.Errorf("%s %s: %w", r.verb, r.path, ErrReadOnly)
	} else {
		err = t.exchange(ctx, r, v)
	}
	t.Limiter.answered(time.Since(start), err)
	return err
}

func (t *requester) exchange(ctx context.Context, r request, v any) error {
	b, err := t.read(ctx, r)
	if err != nil {
		return err
	}
	if o, ok := v.(json.Unmarshaler); ok {
		err = o.UnmarshalJSON(b) // encoding/json would scan b twice before it calls this
	} else {
		err = json.Unmarshal(b, v)
	}
	return r.decoded(err)
}

// decoded returns the error of the request for an error of decoding its response.
func (r request) decoded(err error) error {
	if err != nil {
		return fmt.Errorf("%s %s: %w: %w", r.verb, r.path, ErrAnswer, err)
	}
	return nil
}

// read sends a request and returns the answer's body.
func (t *requester) read(ctx context.Context, r request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ctx, done, err := t.while(ctx, &r)
	if err != nil {
		return nil, err
	}
	body, err := t.open(ctx, r)
	defer func(unopened error) { done(unopened) }(err)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	most := cmp.Or(r.most, maxAnswer)
	b, err := io.ReadAll(io.LimitReader(body, most+1))
	if err != nil {
		return nil, fmt.Errorf("%s %s: read answer: %w", r.verb, r.path, err)
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%s %s: %w", r.verb, r.path, errTooLarge)
	}
	return b, nil
}

// statusError returns a StatusError for a response, even if its body is not a Status.
func statusError(verb string, resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // a partial message is better than none
	var s metav1.Status
	if err := json.Unmarshal(b, &s); err != nil || s.Kind != "Status" {
		s = apierrors.NewGenericServerResponse(resp.StatusCode, verb, schema.GroupResource{}, "", string(bytes.TrimSpace(b)), 0, true).ErrStatus
	}
	if after, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && after > 0 {
		if s.Details == nil {
			s.Details = &metav1.StatusDetails{}
		}
		s.Details.RetryAfterSeconds = int32(min(after, int(time.Hour/time.Second)))
	}
	if s.Code == 0 {
		s.Code = int32(resp.StatusCode)
	}
	return &apierrors.StatusError{ErrStatus: s}
}

// Get reads the metadata of an object.
func (t *Client) Get(ctx context.Context, p Place, id key.Identity) (ownership.Meta, error) {
	var o ownership.Observation
	err := t.do(ctx, request{verb: "get", method: http.MethodGet, path: p.object(id), accept: smallAnswer}, &o)
	return o.Metadata, err
}

// GetAll reads a whole object.
func (t *Client) GetAll(ctx context.Context, p Place, id key.Identity) (*ownership.Answer, error) {
	o := &ownership.Answer{}
	err := t.do(ctx, request{verb: "get", method: http.MethodGet, path: p.object(id), accept: fullAnswer}, o)
	return o, err
}

// Apply applies a body server-side, by force, and returns the resulting object.
func (t *Client) Apply(ctx context.Context, p Place, id key.Identity, manager string, body []byte) (*ownership.Answer, error) {
	o := &ownership.Answer{}
	err := t.do(ctx, request{
		verb: "apply", method: http.MethodPatch, path: p.object(id), accept: fullAnswer, content: applyPatch, body: body,
		// An object with a field that the target does not know is refused.
		query: url.Values{"fieldManager": {manager}, "force": {"true"}, "fieldValidation": {"Strict"}},
	}, o)
	return o, err
}

// Remove deletes an object if it has the UID. gone reports whether the object no longer
// exists; otherwise it is terminating.
func (t *Client) Remove(
	ctx context.Context, p Place, id key.Identity, uid string, policy metav1.DeletionPropagation,
) (gone bool, err error) {
	body, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions:     metav1.NewUIDPreconditions(uid),
		PropagationPolicy: &policy,
	})
	if err != nil {
		return false, fmt.Errorf("encode delete options: %w", err)
	}
	var o ownership.Observation
	if err := t.do(ctx, request{
		verb: "delete", method: http.MethodDelete, path: p.object(id), accept: smallAnswer, content: fullAnswer, body: body,
	}, &o); err != nil {
		return false, err
	}
	return o.Kind == "Status", nil
}

// CreateNamespace creates a namespace that is not a desired object itself, for the desired
// objects in it.
func (t *Client) CreateNamespace(ctx context.Context, name string, l ownership.Owner) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": name, "annotations": map[string]string{v1alpha1.ImpliedAnnotation: string(l)}},
	})
	if err != nil {
		return fmt.Errorf("encode namespace: %w", err)
	}
	var o ownership.Observation
	return t.do(ctx, request{
		verb: "create", method: http.MethodPost, path: Namespaces.collection(""), accept: smallAnswer, content: fullAnswer,
		query: url.Values{"fieldManager": {l.Manager()}}, body: body,
	}, &o)
}

// TryApply is a dry run of Apply, without strict validation of fields. It returns the
// metadata that would result.
func (t *Client) TryApply(ctx context.Context, p Place, id key.Identity, manager string, body []byte) (ownership.Meta, error) {
	var o ownership.Observation
	err := t.tryApply(ctx, p, id, manager, body, smallAnswer, &o)
	return o.Metadata, err
}

// TryApplyAll is TryApply that returns the whole object that would result.
func (t *Client) TryApplyAll(ctx context.Context, p Place, id key.Identity, manager string, body []byte) (*ownership.Answer, error) {
	o := &ownership.Answer{}
	err := t.tryApply(ctx, p, id, manager, body, fullAnswer, o)
	return o, err
}

func (t *Client) tryApply(ctx context.Context, p Place, id key.Identity, manager string, body []byte, accept string, v any) error {
	return t.do(ctx, request{
		verb: "try", method: http.MethodPatch, path: p.object(id), accept: accept, content: applyPatch, body: body,
		query: url.Values{"fieldManager": {manager}, "force": {"true"}, "dryRun": {"All"}},
	}, v)
}

// Merge sends a JSON merge patch, which fails if the UID or resourceVersion in it are not
// the object's. verb names the request in metrics and errors.
func (t *Client) Merge(ctx context.Context, verb string, p Place, id key.Identity, manager string, body []byte) (ownership.Meta, error) {
	var o ownership.Observation
	err := t.do(ctx, request{
		verb: verb, method: http.MethodPatch, path: p.object(id), accept: smallAnswer, content: mergePatch, body: body,
		query: url.Values{"fieldManager": {manager}},
	}, &o)
	return o.Metadata, err
}

// TryCreate is a dry run of a creation.
func (t *Client) TryCreate(ctx context.Context, p Place, id key.Identity, manager string, body []byte) error {
	var o ownership.Observation
	return t.do(ctx, request{
		verb: "try", method: http.MethodPost, path: p.collection(id.Namespace), accept: smallAnswer, content: fullAnswer, body: body,
		query: url.Values{"fieldManager": {manager}, "dryRun": {"All"}},
	}, &o)
}
