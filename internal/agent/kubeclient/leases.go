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

// Leases is the resource of the Leases that decide which agent may write to the target.
var Leases = Place{Resource: key.NewResource(coordinationv1.GroupName, "leases"), Version: "v1"}

// ErrNotHeld is returned for a write that was not sent, or was abandoned, since the agent does
// not hold its Lease.
var ErrNotHeld = errors.New("the agent may not act at the cluster now")

// Held returns a context that ends when the agent loses its Lease, and the time until which no
// other agent acquires it. It returns an error with the reason if the agent does not hold it.
type Held func() (held context.Context, until time.Time, err error)

// Guard makes all writes, except those to Leases, depend on a held Lease. It must be called
// before the first request.
func (t *requester) Guard(held Held) { t.held = held }

// Unanswered reports whether a write was recently abandoned without a response, so that the
// target may still carry it out.
func (t *requester) Unanswered() bool {
	return time.Since(time.Unix(0, t.unanswered.Load())) < 2*requestTimeout
}

// while returns a context for a request; the context of a write ends when the agent loses its
// Lease. The caller must call done with the error of the request.
func (t *requester) while(ctx context.Context, r *request) (_ context.Context, done func(error), err error) {
	if t.held == nil || r.method == http.MethodGet || r.free {
		return ctx, func(error) {}, nil
	}
	held, until, err := t.held()
	if err != nil {
		return ctx, nil, fmt.Errorf("%s %s: %w: %w", r.verb, r.path, ErrNotHeld, err)
	}
	left := time.Until(until).Truncate(time.Millisecond)
	if left <= 0 { // a timeout of 0 would mean none
		return ctx, nil, fmt.Errorf("%s %s: %w", r.verb, r.path, ErrNotHeld)
	}
	// The API server must not carry out the write after the Lease, even if the agent stays connected.
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

// ServesLeases reports whether the target serves Leases.
func (t *LeaseClient) ServesLeases(ctx context.Context) (bool, error) {
	versions, err := t.discovery.versions(ctx, coordinationv1.GroupName)
	return len(versions) > 0, err
}

// ListLeases returns all current Leases with the labels, in all namespaces.
func (t *LeaseClient) ListLeases(ctx context.Context, labels string) ([]coordinationv1.Lease, error) {
	var all coordinationv1.LeaseList
	err := t.exchange(ctx, request{
		verb: "list", method: http.MethodGet, path: Leases.collection(""), accept: fullAnswer, query: url.Values{"labelSelector": {labels}}, free: true,
	}, &all)
	return all.Items, err
}

// CreateLease creates a Lease, and its namespace if that is missing.
func (t *LeaseClient) CreateLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	id := key.Identity{Resource: Leases.Resource, Namespace: l.Namespace, Name: l.Name}
	made, err := t.sendLease(ctx, "create", http.MethodPost, Leases.collection(l.Namespace), l)
	if !MissingNamespace(err, id) {
		return made, err
	}
	namespace, err := json.Marshal(corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: l.Namespace}})
	if err != nil {
		return nil, fmt.Errorf("encode namespace: %w", err)
	}
	var created metav1.PartialObjectMetadata
	err = t.exchange(ctx, request{
		verb: "create", method: http.MethodPost, path: Namespaces.collection(""), accept: fullAnswer, content: fullAnswer, body: namespace, free: true,
	}, &created)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	return t.sendLease(ctx, "create", http.MethodPost, Leases.collection(l.Namespace), l)
}

// UpdateLease replaces a Lease if it has not changed since it was read.
func (t *LeaseClient) UpdateLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return t.sendLease(ctx, "update", http.MethodPut, Leases.collection(l.Namespace)+"/"+l.Name, l)
}

func (t *LeaseClient) sendLease(ctx context.Context, verb, method, path string, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
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
