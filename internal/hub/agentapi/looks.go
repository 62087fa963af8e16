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
	// looksAtOnce is how many questions agents are asked at once, looksOfOne how many of
	// them one agent is, and looksWaiting how many of one may wait for their turn. What is
	// kept for each is a few times wire.MaxLooked.
	looksAtOnce  = 32
	looksOfOne   = 2
	looksWaiting = 8
	lookPatience = 10 * time.Second
	// maxLookWait is how long an agent may take to answer, by default.
	maxLookWait = 30 * time.Second
)

// looks are the questions that agents have yet to answer.
type looks struct {
	turns *fairqueue.Queue

	mu      sync.Mutex
	waiting map[string]*waitingLook // by ID
}

// waitingLook is a question to the agent of one location.
type waitingLook struct {
	location key.Location
	// answered receives the body of the answer.
	answered chan []byte
}

func newLooks(patience time.Duration) *looks {
	return &looks{
		turns:   fairqueue.NewQueue(fairqueue.QueueConfig{Limit: looksAtOnce, Share: looksOfOne, Queue: looksWaiting, Patience: patience}),
		waiting: map[string]*waitingLook{},
	}
}

// expect makes the ID of a question, which waits until forget is called.
func (k *looks) expect(l key.Location) (id string, answered <-chan []byte, forget func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id = rand.Text()
	w := &waitingLook{location: l, answered: make(chan []byte, 1)}
	k.waiting[id] = w
	return id, w.answered, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.waiting, id)
	}
}

// claim takes the question that a location answers; nil: it was not asked.
func (k *looks) claim(l key.Location, id string) *waitingLook {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.waiting[id]
	if w == nil || w.location != l {
		return nil
	}
	delete(k.waiting, id)
	return w
}

// asks says whether the answer to a question is waited for.
func (k *looks) asks(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.waiting[id] != nil
}

// lookError is why nobody knows what is at a location.
func lookError(code int32, reason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReason(reason), Message: message,
	}}
}

// Look asks the agent of a location, over its session, what is there in the place of an
// object that the location has, or is to have. Whoever waits for it is to hold nothing that
// others wait for. An error is a Status with a reason of the API.
func (a *Server) Look(ctx context.Context, l key.Location, o key.Object, all bool) (wire.Looked, error) {
	var none wire.Looked
	leave, err := a.looks.turns.Enter(ctx, fairqueue.Flow{Name: "location " + string(l)})
	if err != nil {
		return none, err
	}
	defer leave()
	of := a.sessionFor(l, o.Space)
	open, looks := a.sessions.asked(of)
	switch {
	case open == nil:
		return none, a.notConnected(of)
	case looks == nil:
		return none, lookError(http.StatusNotImplemented, v1alpha1.ReasonAgentTooOld, fmt.Sprintf("the agent of location %q is too old to be asked what is there: update it", l))
	}
	id, answered, forget := a.looks.expect(l)
	defer forget()
	wait := cmp.Or(a.config.InspectTimeout, maxLookWait)
	late := time.NewTimer(wait)
	defer late.Stop()
	ask := wire.Look{ID: id, Key: o.Path(), All: all}
	for {
		select {
		case looks <- ask:
			looks = nil
		case body := <-answered:
			return readLooked(l, o, body)
		case <-open.Done():
			return none, a.notConnected(of)
		case <-late.C:
			return none, lookError(http.StatusGatewayTimeout, v1alpha1.ReasonNoAnswer,
				fmt.Sprintf("the agent of location %q has not answered within %s; it may be comparing all that it has, or its cluster may be slow", l, wait))
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// notConnected is the error about a location whose agent has no session here.
func (a *Server) notConnected(of key.Session) error {
	l := of.Location
	message := fmt.Sprintf("the agent of location %q is not connected to this hub", l)
	state := a.config.Table.Snapshot()
	if at, ok := presence.SessionsOf(state, l)[of.Shard]; ok {
		message += "; it is connected to another hub"
		if h := presence.Hubs(state)[at.Hub]; h.URL != "" {
			message += ", at " + h.URL
		}
	} else if _, seen := a.sessions.Connected(of); !seen.Ended.IsZero() {
		message += a.since(seen.Ended)
	} else if c := a.connected(l); c != nil && !c.LastTransitionTime.IsZero() {
		message += a.since(c.LastTransitionTime.Time)
	}
	return lookError(http.StatusServiceUnavailable, v1alpha1.ReasonNotConnected, message)
}

func (a *Server) since(at time.Time) string {
	return fmt.Sprintf(" since %s (for %s)", at.UTC().Format(time.RFC3339), a.sessions.now().Sub(at).Round(time.Second))
}

// connected is the condition Connected of a location; nil: there is none.
func (a *Server) connected(l key.Location) *metav1.Condition {
	var location v1alpha1.Location
	row, err := a.find(l)
	if err != nil || json.Unmarshal(row.Value, &location) != nil {
		return nil
	}
	return meta.FindStatusCondition(location.Status.Conditions, v1alpha1.ConditionConnected)
}

// serveLooked takes an answer. What was not asked is not read.
func (a *Server) serveLooked(w http.ResponseWriter, r *http.Request, l key.Location) {
	of := a.looks.claim(l, r.URL.Query().Get("id"))
	if of == nil {
		respond.Error(w, r, respond.NotFound(r.URL.Path))
		return
	}
	body, err := requestbody.Read(r, requestbody.Limits{Bytes: wire.MaxLooked, Depth: maxLookedDepth})
	if err != nil {
		body = nil // which is no answer
	}
	of.answered <- body
	if err != nil {
		respond.Error(w, r, respond.BadBody(err, "read what is at the location"))
		return
	}
	respond.JSON(w, struct{}{})
}

// readLooked reads what an agent has answered about an object. It fails for what is no
// answer about that object, and for a Secret that shows values.
func readLooked(l key.Location, o key.Object, body []byte) (looked wire.Looked, err error) {
	bad := func(why error) (wire.Looked, error) {
		return wire.Looked{}, lookError(http.StatusBadGateway, v1alpha1.ReasonBadAnswer, fmt.Sprintf("the agent of location %q does not answer what it was asked: %v", l, why))
	}
	if body == nil {
		return bad(fmt.Errorf("its answer can't be read, has more than %d bytes, or is nested deeper than %d levels", wire.MaxLooked, maxLookedDepth))
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(&looked); err != nil {
		return bad(errors.New("it is no JSON of the protocol"))
	}
	looked.Reason, looked.Message = wire.Clip(looked.Reason, maxVersion), wire.Clip(looked.Message, maxLookMessage)
	if looked.Reason != "" {
		return wire.Looked{Reason: looked.Reason, Message: looked.Message}, nil
	}
	for _, side := range []json.RawMessage{looked.Live, looked.Desired} {
		if err := isOf(o, side); err != nil {
			return bad(err)
		}
	}
	return looked, nil
}

// maxLookedDepth is for an answer with objects that may be as deep as those that are reported.
const maxLookedDepth = wire.MaxObjectDepth + 1

// maxLookMessage bounds the message of an answer, in bytes.
const maxLookMessage = 2048

// isOf fails unless an object of an answer, if there is one, is that which was asked about.
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

// masked says that all values of a Secret's field are masked.
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
