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

// StatusEvent is one line of the answer to GET /ask/v1/spaces/NAME/status?watch=true: first
// what there is, a line for each object, then Synced, then what changes.
type StatusEvent struct {
	// Status is what the SpaceStatus says besides its objects. It comes first, and again
	// whenever it has changed.
	Status *SpaceStatus `json:"status,omitempty"`
	// Object has the places of an object that are new or have changed, and Gone those that
	// are no more, or that are not asked for any more.
	Object *ObjectStatus  `json:"object,omitempty"`
	Gone   []key.Location `json:"gone,omitempty"`
	// Whole says that the object has no other places than those of Object.
	Whole bool `json:"whole,omitempty"`
	// Synced says that everything that there was has been told.
	Synced bool `json:"synced,omitempty"`
	// Ping keeps a quiet answer alive.
	Ping bool `json:"ping,omitempty"`
}

const (
	// gather is how long changes wait for others to be told together.
	gather = 20 * time.Millisecond
	// headEvery is the least time between looks at the totals of Placements while something
	// changes, and headShare how much of the time is for that at most, as a divisor.
	headEvery = time.Second
	headShare = 20
	// pingEvery is how often something is sent; a write that takes longer ends the answer.
	pingEvery = 30 * time.Second
)

// errEnded ends an answer that goes on: the client may ask again.
var errEnded = errors.New("the reader's access has changed")

// Follows says whether a request for a status goes on with what changes.
func Follows(r *http.Request) bool { return r.URL.Query().Get("watch") == "true" }

// follower tells one client what changes in the status of a space.
type follower struct {
	*Server
	rights *rights
	filter statusFilter
	out    *json.Encoder
	http   *http.ResponseController
	// subs are about objects, reports and locations.
	subs [3]*table.Subscription
	// dirty are the objects that have changed: all their places, or some.
	dirty map[key.Identity]*changedPlaces
	// head is what was said last besides the objects; headDue fires when it is to be looked
	// at again, and is pending from the first change until then. looking is how long the last
	// look took.
	head    []byte
	headDue *time.Timer
	pending bool
	looking time.Duration
}

type changedPlaces struct {
	whole bool
	at    map[key.Location]struct{}
}

// follow answers with the status of a space, and then with what changes in it, until the
// client goes, its access changes or it falls out of the window.
func (q *Server) follow(w http.ResponseWriter, r *http.Request, rights *rights, f statusFilter) {
	snapshot := q.config.Table.Snapshot()
	c := &follower{Server: q, rights: rights, filter: f, out: json.NewEncoder(w), http: http.NewResponseController(w), dirty: map[key.Identity]*changedPlaces{}}
	premises := table.Ending(q.config.Premises(r.Context()), errEnded)
	if rights.space != key.Root {
		premises = append(premises, table.Stands(rights.space.Key(), snapshot.Rev, errEnded))
	}
	for i, topic := range []table.Topic{
		table.Under(key.SpacePrefix(rights.space)), table.About(rights.space), table.Under(key.ResourcePrefix(key.Root, key.Locations)),
	} {
		sub, err := q.config.Table.Subscribe(snapshot.Rev, premises, topic)
		if err != nil {
			respond.Error(w, r, apierrors.NewServiceUnavailable("the state has moved on, or the access was just changed: ask again"))
			return
		}
		defer sub.Close()
		c.subs[i] = sub
	}
	w.Header().Set("Content-Type", "application/json")
	if err := c.begin(snapshot); err != nil {
		return // the client is gone
	}
	flowcontrol.WatchInitialized(r.Context())
	c.run(r.Context())
}

// send writes a line. It fails if the client does not take it.
func (c *follower) send(e StatusEvent) error { return c.out.Encode(e) }

// flush has the client see what was sent, within the time that it has for that.
func (c *follower) flush() error {
	err := c.http.Flush()
	c.allow()
	return err
}

// allow gives the client time for what is sent next. A writer without deadlines, as in tests,
// goes without.
func (c *follower) allow() { _ = c.http.SetWriteDeadline(time.Now().Add(2 * pingEvery)) }

// begin tells what there is.
func (c *follower) begin(state *table.Snapshot) error {
	c.allow()
	if err := c.tellHead(state); err != nil {
		return err
	}
	var next string
	for one := range c.objectStatuses(state, c.rights.space, c.filter, page{}, &next) {
		if err := c.send(StatusEvent{Object: &one, Whole: true}); err != nil {
			return err
		}
	}
	if err := c.send(StatusEvent{Synced: true}); err != nil {
		return err
	}
	return c.flush()
}

// run tells what changes until the client or its access is gone.
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
			if err = c.tellHead(c.config.Table.Snapshot()); err == nil {
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
		if len(c.dirty) > 0 && c.tell(c.config.Table.Snapshot()) != nil {
			return
		}
	}
}

// changes notes what has changed, after a moment in which more may come.
func (c *follower) changes(ctx context.Context) error {
	timer := time.NewTimer(gather)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	for i, note := range []func(table.Change){c.noteObject, c.noteReport, c.noteLocation} {
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
					note(ch)
				}
			}
		}
	}
	return nil
}

func (c *follower) note(id key.Identity) *changedPlaces {
	if c.dirty[id] == nil {
		c.dirty[id] = &changedPlaces{at: map[key.Location]struct{}{}}
	}
	return c.dirty[id]
}

func (c *follower) noteObject(ch table.Change) {
	o, err := key.ParseObject(ch.Row().Key)
	switch {
	case err != nil:
	case o.Resource == key.Placements: // its spec, or its counts have settled
		c.lookAgain()
	case placement.Never(o.Resource) == "":
		c.note(o.Identity).whole = true
	}
}

// lookAgain has the totals of Placements looked at soon.
func (c *follower) lookAgain() {
	if !c.pending {
		c.pending = true
		c.headDue.Reset(max(headEvery, headShare*c.looking))
	}
}

func (c *follower) noteReport(ch table.Change) {
	if r, err := key.ParseReport(ch.Row().Key); err == nil && r.Origin == key.Placed {
		c.note(r.Identity).at[r.Location] = struct{}{}
	}
}

// noteLocation notes what is at a location that has become away, or is not any more.
func (c *follower) noteLocation(ch table.Change) {
	if objectstate.RowAway(ch.Cur) == objectstate.RowAway(ch.Prev) {
		return
	}
	o, err := key.ParseObject(ch.Row().Key)
	if err != nil {
		return
	}
	l := key.Location(o.Name)
	c.config.Table.Snapshot().Ascend(key.OriginReports(l, c.rights.space, key.Placed), func(row *table.Row) bool {
		if r, err := key.ParseReport(row.Key); err == nil {
			c.note(r.Identity).at[l] = struct{}{}
		}
		return true
	})
	for _, k := range c.assignedTo(l) {
		if o, err := key.ParseObject(k); err == nil {
			c.note(o.Identity).at[l] = struct{}{}
		}
	}
}

// assignedTo are the keys of the space's objects that are assigned to a location. It costs as
// much as these are.
func (c *follower) assignedTo(l key.Location) (keys []string) {
	prefix := key.SpacePrefix(c.rights.space)
	c.config.Table.AscendMembers(l, func(row *table.Row) (from string, more bool) {
		if row.Key < prefix {
			return prefix, true
		}
		if !strings.HasPrefix(row.Key, prefix) {
			return "", false
		}
		if m, ok := row.In.(*placement.Membership); ok && m.Has(l) {
			keys = append(keys, row.Key)
		}
		return "", true
	})
	return keys
}

// tell tells of what is dirty as it is now. What the reader may know is looked at anew.
func (c *follower) tell(state *table.Snapshot) error {
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
	away := awayIn(state)
	for id, changed := range c.dirty {
		if c.filter.wants(id) {
			if err := c.send(c.event(state, id, changed, away)); err != nil {
				return err
			}
		}
	}
	clear(c.dirty)
	c.lookAgain()
	return c.flush()
}

// event is what there is to tell of an object.
func (c *follower) event(state *table.Snapshot, id key.Identity, changed *changedPlaces, away func(key.Location) bool) StatusEvent {
	o, f := key.Object{Space: c.rights.space, Identity: id}, c.filter
	f.object = id.String()
	_, left := c.leftStatuses(state, o.Space, f, away)
	status := &ObjectStatus{Object: f.object}
	if row := state.Get(o.Key()); row != nil {
		if now := c.objectStatus(state, o, row, f, away, left[o.Path()]); now != nil {
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
		if _, ok := changed.at[p.Location]; ok {
			places = append(places, p)
			delete(changed.at, p.Location)
		}
	}
	status.Places = places
	e := StatusEvent{Object: status}
	for l := range changed.at {
		e.Gone = append(e.Gone, l)
	}
	return e
}

// tellHead tells what is said besides the objects, if that has changed.
func (c *follower) tellHead(state table.Reader) error {
	began := time.Now()
	head := c.Server.head(state, c.rights, c.filter)
	c.looking = time.Since(began)
	text, err := json.Marshal(head)
	if err != nil || string(text) == string(c.head) {
		return err
	}
	c.head = text
	return c.send(StatusEvent{Status: &head})
}
