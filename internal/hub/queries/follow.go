package queries

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// StatusEvent is one line of the response to GET /ask/v1/spaces/NAME/status?watch=true: first the
// present state with a line for each object, then Synced, then changes.
type StatusEvent struct {
	// Status is the SpaceStatus without its objects. It is sent first, and again after each change.
	Status *SpaceStatus `json:"status,omitempty"`
	// Object contains new and changed locations of an object, and Gone the locations that were
	// removed or no longer match the filter.
	Object *ObjectStatus  `json:"object,omitempty"`
	Gone   []key.Location `json:"gone,omitempty"`
	// Whole reports that the object has no other locations than those of Object.
	Whole bool `json:"whole,omitempty"`
	// Synced reports that the present state is complete.
	Synced bool `json:"synced,omitempty"`
	// Ping keeps an idle response alive.
	Ping bool `json:"ping,omitempty"`
}

const (
	// gather is how long changes wait for further changes to send together.
	gather = 20 * time.Millisecond
	// headEvery is the minimum interval between computations of the totals of Placements while
	// objects change. headShare limits the share of time for them, as a divisor.
	headEvery = time.Second
	headShare = 20
	// pingEvery is the interval of pings; a write that takes longer ends the response.
	pingEvery = 30 * time.Second
)

// errEnded ends a watch; the client may send the request again.
var errEnded = errors.New("the reader's access has changed")

// Follows reports whether a status request is a watch.
func Follows(r *http.Request) bool { return r.URL.Query().Get("watch") == "true" }

// follower sends changes in the status of a space to one client.
type follower struct {
	status *statusServer
	rights *rights
	filter statusFilter
	out    *json.Encoder
	http   *http.ResponseController
	// subs are the subscriptions to objects, reports and locations.
	subs [3]*table.Subscription
	// dirty are the objects that have changed, at all locations or at some.
	dirty map[key.Identity]*changedPlaces
	// head is the last Status that was sent. headDue fires when it is computed again, and is
	// pending from the first change until then. looking is how long the last computation took.
	head    []byte
	headDue *time.Timer
	pending bool
	looking time.Duration
}

type changedPlaces struct {
	whole     bool
	locations map[key.Location]struct{}
}

// follow responds with the status of a space, and then with its changes, until the client
// disconnects, its rights change, or it is too far behind.
func (s *statusServer) follow(w http.ResponseWriter, r *http.Request, rights *rights, f statusFilter) {
	snapshot := s.table.Snapshot()
	c := &follower{status: s, rights: rights, filter: f, out: json.NewEncoder(w), http: http.NewResponseController(w), dirty: map[key.Identity]*changedPlaces{}}
	conditions := table.WithEnd(s.conditions(r.Context()), errEnded)
	if rights.space != key.Root {
		conditions = append(conditions, table.ObjectExists(rights.space.Key(), snapshot.Rev, errEnded))
	}
	for i, topic := range []table.Topic{
		table.PrefixTopic(key.SpacePrefix(rights.space)), table.SpaceReportTopic(rights.space), table.PrefixTopic(key.ResourcePrefix(key.Root, key.Locations)),
	} {
		sub, err := s.table.Subscribe(snapshot.Rev, conditions, topic)
		if err != nil {
			respond.Error(w, r, apierrors.NewServiceUnavailable("the state has moved on, or the access was just changed: ask again"))
			return
		}
		defer sub.Close()
		c.subs[i] = sub
	}
	w.Header().Set("Content-Type", "application/json")
	if err := c.begin(r.Context(), snapshot); err != nil {
		return // the client has disconnected
	}
	flowcontrol.WatchInitialized(r.Context())
	c.run(r.Context())
}

// send writes a line. It fails if the client does not receive it.
func (c *follower) send(e StatusEvent) error { return c.out.Encode(e) }

// flush sends the written lines to the client, within the time limit.
func (c *follower) flush() error {
	err := c.http.Flush()
	c.allow()
	return err
}

// allow sets the time limit for the next write. A writer without deadlines, as in tests, has no
// limit.
func (c *follower) allow() { _ = c.http.SetWriteDeadline(time.Now().Add(2 * pingEvery)) }

// begin sends the present state.
func (c *follower) begin(ctx context.Context, state *table.Snapshot) error {
	c.allow()
	if err := c.tellHead(ctx, state); err != nil {
		return err
	}
	var next string
	for one := range c.status.objects.page(ctx, state, c.rights.space, c.filter, page{}, &next) {
		if err := ctx.Err(); err != nil {
			return err // it may be incomplete
		}
		if err := c.send(StatusEvent{Object: &one, Whole: true}); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.send(StatusEvent{Synced: true}); err != nil {
		return err
	}
	return c.flush()
}

// run sends changes until the client disconnects or its rights end.
func (c *follower) run(ctx context.Context) {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	c.headDue = time.NewTimer(headEvery)
	defer c.headDue.Stop()
	c.pending = true
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-c.subs[0].Wake():
		case <-c.subs[1].Wake():
		case <-c.subs[2].Wake():
		case <-c.headDue.C:
			c.pending = false
			if err = c.tellHead(ctx, c.status.table.Snapshot()); err == nil {
				err = c.flush()
			}
		case <-ping.C:
			if err = c.send(StatusEvent{Ping: true}); err == nil {
				err = c.flush()
			}
		}
		if err == nil {
			err = c.changes(ctx)
		}
		if err != nil {
			return
		}
		if len(c.dirty) > 0 && c.tell(ctx, c.status.table.Snapshot()) != nil {
			return
		}
	}
}

// changes collects changes for a short time.
func (c *follower) changes(ctx context.Context) error {
	timer := time.NewTimer(gather)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	for i, record := range []func(table.Change){c.recordObject, c.recordReport, c.recordLocation} {
		for {
			steps, _, err := c.subs[i].Poll()
			if err != nil {
				return err
			}
			if len(steps) == 0 {
				break
			}
			for _, step := range steps {
				for _, ch := range step.Changes {
					record(ch)
				}
			}
		}
	}
	return nil
}

func (c *follower) record(id key.Identity) *changedPlaces {
	if c.dirty[id] == nil {
		c.dirty[id] = &changedPlaces{locations: map[key.Location]struct{}{}}
	}
	return c.dirty[id]
}

func (c *follower) recordObject(ch table.Change) {
	o, err := key.ParseObject(ch.Row().Key)
	switch {
	case err != nil:
	case o.Resource == key.Placements: // its spec has changed, or its counts are stable
		c.lookAgain()
	case placement.Never(o.Resource) == "":
		c.record(o.Identity).whole = true
	}
}

// lookAgain schedules a computation of the totals of Placements.
func (c *follower) lookAgain() {
	if !c.pending {
		c.pending = true
		c.headDue.Reset(max(headEvery, headShare*c.looking))
	}
}

func (c *follower) recordReport(ch table.Change) {
	if r, err := key.ParseReport(ch.Row().Key); err == nil && r.Origin == key.Placed {
		c.record(r.Identity).locations[r.Location] = struct{}{}
	}
}

// recordLocation records the objects of a location that was disconnected or connected.
func (c *follower) recordLocation(ch table.Change) {
	if objectstate.IsRowStale(ch.Cur) == objectstate.IsRowStale(ch.Prev) {
		return
	}
	o, err := key.ParseObject(ch.Row().Key)
	if err != nil {
		return
	}
	l := key.Location(o.Name)
	c.status.table.Snapshot().Ascend(key.OriginReports(l, c.rights.space, key.Placed), func(row *table.Row) bool {
		if r, err := key.ParseReport(row.Key); err == nil {
			c.record(r.Identity).locations[l] = struct{}{}
		}
		return true
	})
	for _, k := range c.assignedTo(l) {
		if o, err := key.ParseObject(k); err == nil {
			c.record(o.Identity).locations[l] = struct{}{}
		}
	}
}

// assignedTo returns the keys of the space's objects that are assigned to a location. Its cost is
// proportional to their number.
func (c *follower) assignedTo(l key.Location) (keys []string) {
	prefix := key.SpacePrefix(c.rights.space)
	c.status.table.AscendMembers(l, func(row *table.Row) (from string, more bool) {
		if row.Key < prefix {
			return prefix, true
		}
		if !strings.HasPrefix(row.Key, prefix) {
			return "", false
		}
		if m, ok := row.In.(*placement.Membership); ok && m.Contains(l) {
			keys = append(keys, row.Key)
		}
		return "", true
	})
	return keys
}

// tell sends the present state of dirty objects. It checks the reader's rights again.
func (c *follower) tell(ctx context.Context, state *table.Snapshot) error {
	clear(c.rights.known)
	if c.filter.object != "" {
		o, err := key.ParseIn(c.rights.space, c.filter.object)
		if err == nil {
			err = c.rights.gets(o)
		}
		if err != nil {
			return err
		}
	}
	c.allow()
	stale := staleIn(state)
	for id, changed := range c.dirty {
		if !c.filter.wants(id) {
			continue
		}
		e := c.event(ctx, state, id, changed, stale)
		if err := ctx.Err(); err != nil {
			return err // it may be incomplete
		}
		if err := c.send(e); err != nil {
			return err
		}
	}
	clear(c.dirty)
	c.lookAgain()
	return c.flush()
}

// event returns the event for an object.
func (c *follower) event(ctx context.Context, state *table.Snapshot, id key.Identity, changed *changedPlaces, stale func(key.Location) bool) StatusEvent {
	o, f := key.Object{Space: c.rights.space, Identity: id}, c.filter
	f.object = id.String()
	_, left := c.status.objects.left(ctx, state, o.Space, f, stale)
	status := &ObjectStatus{Object: f.object}
	if row := state.Get(o.Key()); row != nil {
		if now := c.status.objects.status(ctx, state, o, row, f, stale, left[o.Path()]); now != nil {
			status = now
		} else {
			status.Places = left[o.Path()]
		}
	} else {
		status.Places = left[o.Path()]
	}
	if changed.whole {
		return StatusEvent{Object: status, Whole: true}
	}
	var places []PlaceStatus
	for _, p := range status.Places {
		if _, ok := changed.locations[p.Location]; ok {
			places = append(places, p)
			delete(changed.locations, p.Location)
		}
	}
	status.Places = places
	e := StatusEvent{Object: status}
	for l := range changed.locations {
		e.Gone = append(e.Gone, l)
	}
	return e
}

// tellHead sends the Status if it has changed.
func (c *follower) tellHead(ctx context.Context, state table.Reader) error {
	began := time.Now()
	head := c.status.head(ctx, state, c.rights, c.filter)
	c.looking = time.Since(began)
	if err := ctx.Err(); err != nil {
		return err
	}
	text, err := json.Marshal(head)
	if err != nil || string(text) == string(c.head) {
		return err
	}
	c.head = text
	return c.send(StatusEvent{Status: &head})
}
