package agentapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// maxInspections limits the concurrent inspect requests, maxAgentInspections those to one
	// agent, and maxQueuedInspections those that wait for one agent. Each takes a few times
	// wire.MaxInspectResponse in memory.
	maxInspections       = 32
	maxAgentInspections  = 2
	maxQueuedInspections = 8
	inspectQueueTimeout  = 10 * time.Second
	// defaultInspectTimeout is the default of Config.InspectTimeout.
	defaultInspectTimeout = 30 * time.Second
)

// inspections are the pending inspect requests to agents.
type inspections struct {
	queue *fairqueue.Queue

	mu      sync.Mutex
	waiting map[string]*pendingInspection // by ID
}

// pendingInspection is an inspect request to the agent of one location.
type pendingInspection struct {
	location key.Location
	// answered receives the body of the response.
	answered chan []byte
}

func newInspections(timeout time.Duration) *inspections {
	return &inspections{
		queue:   fairqueue.NewQueue(fairqueue.QueueConfig{Limit: maxInspections, Share: maxAgentInspections, Queue: maxQueuedInspections, Timeout: timeout}),
		waiting: map[string]*pendingInspection{},
	}
}

// expect adds an inspect request with a new ID. The caller must call forget.
func (k *inspections) expect(l key.Location) (id string, answered <-chan []byte, forget func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id = rand.Text()
	w := &pendingInspection{location: l, answered: make(chan []byte, 1)}
	k.waiting[id] = w
	return id, w.answered, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.waiting, id)
	}
}

// claim removes and returns the request that a location answers, or nil.
func (k *inspections) claim(l key.Location, id string) *pendingInspection {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.waiting[id]
	if w == nil || w.location != l {
		return nil
	}
	delete(k.waiting, id)
	return w
}

// isPending reports whether a request waits for its response.
func (k *inspections) isPending(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.waiting[id] != nil
}

// inspectError returns the error of an inspect request.
func inspectError(code int32, reason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReason(reason), Message: message,
	}}
}

// Inspect requests the live object and the result of its next apply from the agent of a location,
// over its session. all includes the values of other owners. The caller must hold no locks while it
// waits. An error is a Status with a reason of the API.
func (a *Server) Inspect(ctx context.Context, l key.Location, o key.Object, all bool) (wire.InspectResponse, error) {
	var none wire.InspectResponse
	leave, err := a.inspections.queue.Enter(ctx, fairqueue.Flow{Name: "location " + string(l)})
	if err != nil {
		return none, err
	}
	defer leave()
	target := a.sessionFor(l, o.Space)
	open, queue := a.sessions.inspector(target)
	switch {
	case open == nil:
		return none, a.notConnected(target)
	case queue == nil:
		return none, inspectError(http.StatusNotImplemented, v1alpha1.ReasonAgentTooOld, fmt.Sprintf("the agent of location %q is too old for inspect requests: update it", l))
	}
	id, answered, forget := a.inspections.expect(l)
	defer forget()
	wait := cmp.Or(a.config.InspectTimeout, defaultInspectTimeout)
	late := time.NewTimer(wait)
	defer late.Stop()
	request := wire.InspectRequest{ID: id, Key: o.Path(), All: all}
	for {
		select {
		case queue <- request:
			queue = nil
		case body := <-answered:
			return readInspected(l, o, body)
		case <-open.Done():
			return none, a.notConnected(target)
		case <-late.C:
			return none, inspectError(http.StatusGatewayTimeout, v1alpha1.ReasonNoAnswer,
				fmt.Sprintf("the agent of location %q has not answered within %s; it may be comparing all that it has, or its cluster may be slow", l, wait))
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// notConnected returns the error for a location whose agent has no session here.
func (a *Server) notConnected(id key.Session) error {
	l := id.Location
	message := fmt.Sprintf("the agent of location %q is not connected to this hub", l)
	state := a.config.Table.Snapshot()
	if other, ok := presence.SessionsOf(state, l)[id.Shard]; ok {
		message += "; it is connected to another hub"
		if h := presence.Hubs(state)[other.Hub]; h.URL != "" {
			message += ", at " + h.URL
		}
	} else if _, seen := a.sessions.Connected(id); !seen.Ended.IsZero() {
		message += a.since(seen.Ended)
	} else if c := a.connected(l); c != nil && !c.LastTransitionTime.IsZero() {
		message += a.since(c.LastTransitionTime.Time)
	}
	return inspectError(http.StatusServiceUnavailable, v1alpha1.ReasonNotConnected, message)
}

func (a *Server) since(moment time.Time) string {
	return fmt.Sprintf(" since %s (for %s)", moment.UTC().Format(time.RFC3339), a.sessions.now().Sub(moment).Round(time.Second))
}

// connected returns the condition Connected of a location, or nil.
func (a *Server) connected(l key.Location) *metav1.Condition {
	var location v1alpha1.Location
	row, err := a.find(l)
	if err != nil || json.Unmarshal(row.Value, &location) != nil {
		return nil
	}
	return meta.FindStatusCondition(location.Status.Conditions, v1alpha1.ConditionConnected)
}

// serveLooked receives the response to an inspect request. It does not read other responses.
func (a *Server) serveLooked(w http.ResponseWriter, r *http.Request, l key.Location) {
	pending := a.inspections.claim(l, r.URL.Query().Get("id"))
	if pending == nil {
		respond.Error(w, r, respond.NotFound(r.URL.Path))
		return
	}
	body, err := requestbody.Read(r, requestbody.Limits{Bytes: wire.MaxInspectResponse, Depth: maxInspectedDepth})
	if err != nil {
		body = nil // an invalid response
	}
	pending.answered <- body
	if err != nil {
		respond.Error(w, r, respond.BadBody(err, "read what is at the location"))
		return
	}
	respond.JSON(w, struct{}{})
}

// readInspected decodes the response of an agent about an object. It fails for another object, and for
// a Secret with unmasked values.
func readInspected(l key.Location, o key.Object, body []byte) (inspected wire.InspectResponse, err error) {
	bad := func(why error) (wire.InspectResponse, error) {
		return wire.InspectResponse{}, inspectError(http.StatusBadGateway, v1alpha1.ReasonBadAnswer, fmt.Sprintf("the agent of location %q does not answer what it was asked: %v", l, why))
	}
	if body == nil {
		return bad(fmt.Errorf("its answer can't be read, has more than %d bytes, or is nested deeper than %d levels", wire.MaxInspectResponse, maxInspectedDepth))
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(&inspected); err != nil {
		return bad(errors.New("it is no JSON of the protocol"))
	}
	inspected.Reason, inspected.Message = wire.Clip(inspected.Reason, maxVersion), wire.Clip(inspected.Message, maxInspectMessage)
	if inspected.Reason != "" {
		return wire.InspectResponse{Reason: inspected.Reason, Message: inspected.Message}, nil
	}
	for _, side := range []json.RawMessage{inspected.Live, inspected.Desired} {
		if err := isOf(o, side); err != nil {
			return bad(err)
		}
	}
	return inspected, nil
}

// maxInspectedDepth allows objects of the maximum depth of reports.
const maxInspectedDepth = wire.MaxObjectDepth + 1

// maxInspectMessage limits the message of a response, in bytes.
const maxInspectMessage = 2048

// isOf fails if a response contains another object than the requested one.
func isOf(o key.Object, text json.RawMessage) error {
	if len(text) == 0 {
		return nil
	}
	var object struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
		Data       any `json:"data"`
		StringData any `json:"stringData"`
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return errors.New("it shows what is no object")
	}
	if group, _ := key.SplitVersion(object.APIVersion); group != o.APIGroup() || object.Kind == "" || object.Metadata.Name != o.Name || object.Metadata.Namespace != o.Namespace {
		return errors.New("it shows another object")
	}
	if o.Resource.Concealed() && !(masked(object.Data) && masked(object.StringData)) {
		return errors.New("it shows values of a Secret")
	}
	return nil
}

// masked reports whether all values of a Secret's field are masked.
func masked(field any) bool {
	switch field := field.(type) {
	case nil:
		return true
	case string:
		return field == wire.Masked
	case map[string]any:
		for _, v := range field {
			if text, ok := v.(string); !ok || !wire.IsMask(text) {
				return false
			}
		}
		return true
	}
	return false
}
