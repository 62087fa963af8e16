package kubeclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// watchLength is how long a watch lasts, plus or minus a quarter.
const watchLength = time.Hour

// watchEvent is one line of a watch.
type watchEvent struct {
	Type   string
	Object ownership.Answer
	// Error is the Status that an event of that type has instead of an object.
	Error json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler; it decodes the object in place.
func (e *watchEvent) UnmarshalJSON(b []byte) error {
	e.Type = strings.Clone(gjson.GetBytes(b, "type").String())
	object := gjson.GetBytes(b, "object").Raw
	if e.Type == "ERROR" || object == "" {
		e.Error = json.RawMessage(object)
		return nil
	}
	return e.Object.UnmarshalJSON([]byte(object))
}

// Follow watches the objects with the given labels from a revision on. It renews the watch
// until that fails, and returns the last revision that it received; empty if the objects must
// be listed again.
func (t *Client) Follow(ctx context.Context, p Place, labels, revision string, full bool, show func(o *ownership.Observation, gone bool) error) (string, error) {
	return t.FollowAll(ctx, p, labels, revision, full, func(o *ownership.Answer, gone bool) error { return show(&o.Observation, gone) })
}

// FollowAll is Follow; it passes whole objects, or all of their metadata unless full is set.
func (t *Client) FollowAll(ctx context.Context, p Place, labels, revision string, full bool, show func(o *ownership.Answer, gone bool) error) (string, error) {
	for {
		next, err := t.watch(ctx, p, labels, revision, full, show)
		if err != nil || next == "" { // without a revision a new watch would miss changes
			return next, err
		}
		if next == revision { // it showed nothing, and may have ended at once
			retry.Pause(ctx, retry.Backoff(0, retry.First, time.Second))
		}
		revision = next
	}
}

// Watch is FollowAll without renewal: it returns when the watch ends, or with the error if the
// target rejects it.
func (t *Client) Watch(ctx context.Context, p Place, labels, revision string, full bool, show func(o *ownership.Answer, gone bool) error) (string, error) {
	return t.watch(ctx, p, labels, revision, full, show)
}

// watch calls show with changes until the watch ends, and returns the last revision.
func (t *Client) watch(ctx context.Context, p Place, labels, revision string, full bool, show func(o *ownership.Answer, gone bool) error) (string, error) {
	length := watchLength - watchLength/4 + rand.N(watchLength/2)
	accept := smallAnswer
	if full {
		accept = fullAnswer
	}
	query := url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {revision},
		"timeoutSeconds": {strconv.Itoa(int(length / time.Second))},
	}
	if labels != "" {
		query.Set("labelSelector", labels)
	}
	body, err := t.open(ctx, request{verb: "watch", method: http.MethodGet, path: p.collection(""), accept: accept, query: query})
	if err != nil {
		return revision, err
	}
	defer body.Close()
	events := &eventReader{from: body}
	dec := json.NewDecoder(events)
	for {
		var e watchEvent
		events.read = 0
		if err := dec.Decode(&e); errors.Is(err, errTooLarge) {
			return "", fmt.Errorf("watch %s: %w", p.Resource, err) // a list is read in pages of any size
		} else if err != nil {
			if ctx.Err() == nil {
				t.log.Debug("watch ended", "resource", p.Resource.String(), "error", err)
			}
			return revision, ctx.Err() // if there is a fault, the next watch returns its error
		}
		if e.Type == "ERROR" {
			s := apierrors.StatusError{}
			if err := json.Unmarshal(e.Error, &s.ErrStatus); err != nil {
				return revision, fmt.Errorf("watch %s: decode error event: %w", p.Resource, err)
			}
			return revision, &s
		}
		o := e.Object
		if o.Metadata.ResourceVersion == "" && o.Metadata.Name == "" {
			return revision, fmt.Errorf("watch %s: %w: an event of type %q has no object", p.Resource, ErrAnswer, e.Type)
		}
		previous := revision
		revision = o.Metadata.ResourceVersion // empty: Follow returns, and the kind is listed again
		// The revisions of an aggregated API are those of its own store.
		if p.Builtin() && precedes(previous, revision) {
			t.Advanced.set(time.Now())
		}
		if e.Type == "BOOKMARK" {
			if precedes(revision, previous) {
				t.log.Info("the cluster's revision is below the one from which it is watched; its objects are listed again",
					"resource", p.Resource.String(), "revision", revision, "watched from", previous)
				return "", nil
			}
			continue
		}
		if err := show(&o, e.Type == "DELETED"); err != nil {
			return revision, err
		}
	}
}

// precedes reports whether one revision is below another. An API server accepts a watch from a revision
// that its restored etcd has not reached yet, and shows nothing before etcd reaches it. Revisions that
// are no numbers have no order.
func precedes(revision, other string) bool {
	a, err := strconv.ParseUint(revision, 10, 64)
	if err != nil {
		return false
	}
	b, err := strconv.ParseUint(other, 10, 64)
	return err == nil && a < b
}

// eventReader fails when an event has more than maxAnswer bytes: the decoder holds a whole event in memory.
type eventReader struct {
	from io.Reader
	// read is the number of bytes read since the previous event.
	read int
}

// Read implements io.Reader.
func (r *eventReader) Read(p []byte) (int, error) {
	if r.read > maxAnswer {
		return 0, errTooLarge
	}
	n, err := r.from.Read(p)
	r.read += n
	return n, err
}
