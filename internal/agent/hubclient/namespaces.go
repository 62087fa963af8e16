package hubclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// namespaceTTL is the lifetime of a response about a Namespace.
	namespaceTTL = 10 * time.Second
	// namespaceSilence is the time without a response after which the last one is used again.
	namespaceSilence = 30 * time.Second
	// namespaceTimeout bounds a request, and maxNamespaceRetry the wait between two requests that fail. Both
	// together are below namespaceSilence, so that a new name is asked about before that.
	namespaceTimeout = 10 * time.Second
	// namespacePause is the time between a response that is older than the object that needs the Namespace and the
	// next request.
	namespacePause    = time.Second
	maxNamespaceRetry = 10 * time.Second
	// maxCachedNamespaces limits the number of cached responses. When it is exceeded, the cache is reduced to
	// keptNamespaces.
	maxCachedNamespaces = 10_000
	keptNamespaces      = maxCachedNamespaces * 9 / 10
)

// Errors of Namespaces.Desired.
var (
	// ErrPending is returned while a query is pending.
	ErrPending = errors.New("wait for the hub's answer about the namespace")
	// ErrUnanswered is returned if the hub does not answer and no earlier answer about the Namespace counts.
	ErrUnanswered = errors.New("the hub has not answered whether another shard of the location has the namespace")
)

// Namespaces queries the hub which Namespaces are desired in other shards of the location: their agents create them.
// It is safe for concurrent use, and only Run blocks.
type Namespaces struct {
	Link
	// queue enqueues identities for reconciliation.
	queue func(ids []string)
	wake  retry.Signal

	mu sync.Mutex
	// known contains the last responses by name, and pending the names for the next request.
	known   map[string]namespaceAnswer
	pending map[string]*namespaceQuestion
}

type namespaceAnswer struct {
	desired  bool
	received time.Time
	// needed is when a response was first needed after the last one that counted.
	needed time.Time
	// marker and revision are the log position of the response; zero from a hub of the previous version.
	marker   string
	revision int64
}

type namespaceQuestion struct {
	since time.Time
	// due is when the hub is to be queried, and sent is set from then on.
	due  time.Time
	sent bool
	// waiting are the identities that wait for the response.
	waiting map[string]struct{}
	// overdue is set once these have been enqueued because there is no response.
	overdue bool
}

// NewNamespaces returns a Namespaces that enqueues waiting identities by queue.
func NewNamespaces(l Link, queue func(ids []string)) *Namespaces {
	return &Namespaces{Link: l, queue: queue, wake: retry.NewSignal(), known: map[string]namespaceAnswer{}, pending: map[string]*namespaceQuestion{}}
}

// Desired reports whether a Namespace is desired at the location. If it returns an error, the identity id is enqueued
// when the hub has responded. If the hub does not respond, the last response counts. One by which the Namespace is not
// desired must not be older in the log than the object that needs the Namespace, whose log position is needed. Without a
// further response it counts while the store has nothing newer from the log. If none counts, Desired returns ErrPending
// for a while and then ErrUnanswered: the agent of another shard may have received the Namespace.
func (n *Namespaces) Desired(id, name string, needed ownership.Pair, now time.Time) (desired bool, err error) {
	desired, overdue, err := n.lookup(id, name, needed, now)
	if len(overdue) > 0 {
		n.queue(overdue)
	}
	return desired, err
}

// lookup is Desired. It also returns the identities to enqueue because there is no response.
func (n *Namespaces) lookup(id, name string, needed ownership.Pair, now time.Time) (desired bool, overdue []string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last, ok := n.known[name]
	if ok && now.Sub(last.received) < namespaceTTL && (last.desired || !n.precedes(last, needed)) {
		last.needed = now
		n.known[name] = last
		return last.desired, nil, nil
	}
	q := n.pending[name]
	if q == nil {
		q = &namespaceQuestion{since: now, due: last.received.Add(namespacePause), waiting: map[string]struct{}{}}
		if ok && now.Sub(last.received) < namespaceTTL { // the response does not end the wait
			q.since = last.needed
		}
		n.pending[name] = q
	}
	if !q.sent && !now.Before(q.due) {
		q.sent = true
		n.wake.Raise()
	}
	if now.Sub(q.since) < namespaceSilence {
		q.waiting[id] = struct{}{}
		return false, nil, ErrPending
	}
	if !q.overdue {
		q.overdue = true
		overdue = slices.Collect(maps.Keys(q.waiting))
	}
	if ok && (last.desired || n.isCurrent(last)) {
		return last.desired, overdue, nil
	}
	q.waiting[id] = struct{}{}
	return false, overdue, ErrUnanswered
}

// precedes reports whether a response is older in the log than a log position. It is not if the two may be of different
// logs, or if the response has no position, as from a hub of the previous version.
func (n *Namespaces) precedes(a namespaceAnswer, needed ownership.Pair) bool {
	isOneLog := a.marker == needed.Marker() || n.State.Proves()
	return a.marker != "" && !needed.IsZero() && isOneLog && a.revision < needed.Revision
}

// isCurrent reports whether a response is not older than the desired objects in the store.
func (n *Namespaces) isCurrent(a namespaceAnswer) bool {
	m := n.Store.Meta()
	return a.marker != "" && a.marker == m.Marker && a.revision >= m.Newest()
}

// Run sends pending queries until ctx ends.
func (n *Namespaces) Run(ctx context.Context) {
	n.wake.Run(ctx, n.inquire, func(err error, failures uint8) time.Duration {
		n.Log.Info("the query about Namespaces of other shards failed, retrying", "error", err)
		return min(max(retry.Backoff(failures, retry.First, maxNamespaceRetry), asksToWait(err)), maxNamespaceRetry)
	})
}

// inquire queries the hub about all pending names.
func (n *Namespaces) inquire(ctx context.Context) error {
	for {
		names := n.next()
		if len(names) == 0 {
			return nil
		}
		answer, err := n.Client.namespaces(ctx, names)
		if err != nil {
			return err
		}
		n.queue(n.learn(names, answer, time.Now()))
	}
}

// next returns the names of the next request.
func (n *Namespaces) next() (names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, q := range n.pending {
		if !q.sent {
			continue
		}
		if names = append(names, name); len(names) == wire.MaxNamespaces {
			break
		}
	}
	return names
}

// learn records a response, and returns the identities that waited for it.
func (n *Namespaces) learn(names []string, answer wire.NamespacesResponse, now time.Time) (ids []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range names {
		a := namespaceAnswer{
			desired: slices.Contains(answer.Desired, name), received: now, needed: now,
			marker: answer.Marker, revision: answer.Revision,
		}
		if q := n.pending[name]; q != nil {
			a.needed = q.since
			for id := range q.waiting {
				ids = append(ids, id)
			}
			delete(n.pending, name)
		}
		n.known[name] = a
	}
	n.evict()
	return ids
}

// evict reduces a cache that is too large. Responses that a Namespace is desired are evicted last, and old ones before
// others.
func (n *Namespaces) evict() {
	if len(n.known) <= maxCachedNamespaces {
		return
	}
	names := slices.SortedFunc(maps.Keys(n.known), func(a, b string) int {
		x, y := n.known[a], n.known[b]
		if x.desired != y.desired {
			if x.desired {
				return 1
			}
			return -1
		}
		return x.received.Compare(y.received)
	})
	for _, name := range names[:len(names)-keptNamespaces] {
		delete(n.known, name)
	}
}

// unknownRequest is in the message of a hub that does not know a request. The 404 of a location that does not exist,
// or of a proxy, has another one.
const unknownRequest = "could not find the requested resource"

// namespaces queries which of some Namespaces are desired at the location. A hub of the previous version does not
// know the request; then the response is empty, and no Namespace counts as desired.
func (h *Client) namespaces(ctx context.Context, names []string) (answer wire.NamespacesResponse, err error) {
	ctx, cancel := context.WithTimeout(ctx, namespaceTimeout)
	defer cancel()
	r, err := h.send(ctx, route.Namespaces, func(enc *wire.Encoder) error { return enc.Encode(wire.NamespacesRequest{Names: names}) })
	if refused, ok := errors.AsType[*hubError](err); ok && refused.code == http.StatusNotFound && strings.Contains(refused.message, unknownRequest) {
		return answer, nil
	}
	if err != nil {
		return answer, err
	}
	defer r.Close()
	if err := json.NewDecoder(io.LimitReader(r, wire.MaxLine)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("namespaces: decode answer: %w", err)
	}
	return answer, nil
}
