package kubeclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/key"
)

// Leases are by whom is decided which agent may act.
var Leases = Place{Resource: key.NewResource(coordinationv1.GroupName, "leases"), Version: "v1"}

// ErrNotHeld says that a request was not made, or given up, since the agent may not act now.
var ErrNotHeld = errors.New("the agent may not act at the cluster now")

// Held gives a context that ends when the agent may not act any more, and until when another
// does not act; or it says why it may not act now.
type Held func() (held context.Context, until time.Time, err error)

// Guard has all requests that may change something, but for those about Leases, depend on
// whether the agent may act. It is for before the first request.
func (t *Client) Guard(held Held) { t.held = held }

// Unanswered says that a request that may have changed something was given up without an
// answer: nobody knows whether it is carried out yet.
func (t *Client) Unanswered() bool {
	return time.Since(time.Unix(0, t.unanswered.Load())) < 2*requestTimeout
}

// while is a request's context that ends with what the agent may do. done takes the error with
// which it has ended.
func (t *Client) while(ctx context.Context, r *request) (_ context.Context, done func(error), err error) {
	if t.held == nil || r.method == http.MethodGet || r.free {
		return ctx, func(error) {}, nil
	}
	held, until, err := t.held()
	if err != nil {
		return ctx, nil, fmt.Errorf("%s %s: %w: %w", r.verb, r.path, ErrNotHeld, err)
	}
	left := time.Until(until).Truncate(time.Millisecond)
	if left <= 0 { // none would be no bound
		return ctx, nil, fmt.Errorf("%s %s: %w", r.verb, r.path, ErrNotHeld)
	}
	// The API server is not to go on with it for longer, whoever is still connected.
	query := url.Values{}
	maps.Copy(query, r.query)
	query.Set("timeout", left.String())
	r.query = query
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(held, func() { cancel(ErrNotHeld) })
	return ctx, func(err error) {
		if err != nil && StatusOf(err) == nil {
			t.unanswered.Store(time.Now().UnixNano())
		}
		stop()
		cancel(nil)
	}, nil
}

// ServesLeases says whether the target has Leases at all.
func (t *Client) ServesLeases(ctx context.Context) (bool, error) {
	versions, err := t.versions(ctx, coordinationv1.GroupName)
	return len(versions) > 0, err
}

// ListLeases lists all Leases with the labels, in all namespaces, as they are now.
func (t *Client) ListLeases(ctx context.Context, labels string) ([]coordinationv1.Lease, error) {
	var all coordinationv1.LeaseList
	err := t.exchange(ctx, request{
		verb: "list", method: http.MethodGet, path: Leases.collection(""), accept: fullAnswer, query: url.Values{"labelSelector": {labels}}, free: true,
	}, &all)
	return all.Items, err
}

// CreateLease creates a Lease, and its namespace if that is missing.
func (t *Client) CreateLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	id := key.Identity{Resource: Leases.Resource, Namespace: l.Namespace, Name: l.Name}
	made, err := t.sendLease(ctx, "create", http.MethodPost, Leases.collection(l.Namespace), l)
	if !MissingNamespace(err, id) {
		return made, err
	}
	home, err := json.Marshal(corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: l.Namespace}})
	if err != nil {
		return nil, fmt.Errorf("encode namespace: %w", err)
	}
	var there metav1.PartialObjectMetadata
	err = t.exchange(ctx, request{
		verb: "create", method: http.MethodPost, path: Namespaces.collection(""), accept: fullAnswer, content: fullAnswer, body: home, free: true,
	}, &there)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	return t.sendLease(ctx, "create", http.MethodPost, Leases.collection(l.Namespace), l)
}

// UpdateLease replaces a Lease that is as it was when it was read.
func (t *Client) UpdateLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return t.sendLease(ctx, "update", http.MethodPut, Leases.collection(l.Namespace)+"/"+l.Name, l)
}

func (t *Client) sendLease(ctx context.Context, verb, method, path string, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	out := *l
	out.TypeMeta = metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"}
	body, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode lease: %w", err)
	}
	var now coordinationv1.Lease
	if err := t.exchange(ctx, request{verb: verb, method: method, path: path, accept: fullAnswer, content: fullAnswer, body: body, free: true}, &now); err != nil {
		return nil, err
	}
	return &now, nil
}
