package presence

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Index records since when agents have no session, as observed by this process, and notifies the
// hub when another hub has taken a session over. It is safe for concurrent use, and a
// table.Observer.
type Index struct {
	now func() time.Time
	// own is the ID of this hub. claims reports that it is about to write a session, which will be
	// newer. taken is called for each session that another hub now has.
	own    string
	claims func(key.Session) bool
	taken  func(key.Session)
	// left is called for each deleted Location.
	left func(key.Location)

	mu   sync.Mutex
	open map[key.Session]struct{}
	// gone has only agents of existing Locations, which are in located; nil means that all are to
	// be observed again.
	gone    map[key.Session]time.Time
	located map[key.Location]struct{}
	// before are the sessions that were open before a Reset.
	before []key.Session
}

var _ table.Observer = (*Index)(nil)

// NewIndex returns an Index that has observed nothing.
func NewIndex(now func() time.Time) *Index {
	return &Index{now: now, open: map[key.Session]struct{}{}, gone: map[key.Session]time.Time{}}
}

// Follow makes the index call functions for sessions that other hubs take over from this hub, and
// for deleted Locations. It must be called before the first observation; both functions must be
// fast.
func (x *Index) Follow(w *Writer, taken func(key.Session), left func(key.Location)) {
	x.own, x.claims, x.taken, x.left = w.member.ID(), w.claims, taken, left
}

// Gone returns since when an agent has no session at any hub and sends no requests without one, as
// observed by this process. It is zero if that was not observed, or the Location was deleted since.
func (x *Index) Gone(agent key.Session) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.gone[agent]
}

// Reset implements table.Observer.
func (x *Index) Reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for agent := range x.open {
		x.before = append(x.before, agent)
	}
	clear(x.open)
	x.located = nil
}

// Observe implements table.Observer.
func (x *Index) Observe(_ int64, changes []table.Change) {
	x.mu.Lock()
	left := x.locate(changes)
	var taken []key.Session
	ended := x.before // like agents that send requests without a session
	x.before = nil
	for _, ch := range changes {
		k := ch.Row().Key
		class := key.ClassOf(k)
		if class != key.Sessions && class != key.AgentStatuses {
			continue
		}
		agent, ok := key.SessionOf(k)
		switch {
		case !ok:
		case class == key.AgentStatuses:
			if hasSentRequest(ch) {
				ended = append(ended, agent)
			}
		case ch.Cur == nil:
			delete(x.open, agent)
			ended = append(ended, agent)
		default:
			x.open[agent] = struct{}{}
			delete(x.gone, agent)
			if x.taken != nil && readSession(ch.Cur).Hub != x.own {
				taken = append(taken, agent)
			}
		}
	}
	for _, agent := range ended {
		_, open := x.open[agent]
		if _, there := x.located[agent.Location]; there && !open {
			x.gone[agent] = x.now()
		}
	}
	x.mu.Unlock()
	for _, agent := range taken {
		if !x.claims(agent) {
			x.taken(agent)
		}
	}
	if x.left != nil {
		for _, l := range left {
			x.left(l)
		}
	}
}

// locate records which Locations exist, and forgets the agents of all others. It returns the
// Locations that were deleted now.
func (x *Index) locate(changes []table.Change) (left []key.Location) {
	anew := x.located == nil
	if anew {
		x.located = map[key.Location]struct{}{}
	}
	locations := key.ResourcePrefix(key.Root, key.Locations)
	for _, ch := range changes {
		name, is := strings.CutPrefix(ch.Row().Key, locations)
		switch {
		case !is:
		case ch.Cur == nil:
			delete(x.located, key.Location(name))
			left = append(left, key.Location(name))
		default:
			x.located[key.Location(name)] = struct{}{}
		}
	}
	if anew || len(left) > 0 {
		maps.DeleteFunc(x.gone, func(agent key.Session, _ time.Time) bool {
			_, there := x.located[agent.Location]
			return !there
		})
	}
	return left
}

// hasSentRequest reports whether a change of an agent's status means that the agent sent requests
// without a session.
func hasSentRequest(ch table.Change) bool {
	if ch.Cur == nil || ch.Prev == nil {
		return false // the loaded state may be of any time
	}
	const field = "heard"
	now := gjson.GetBytes(ch.Cur.Value, field).Raw
	return now != "" && now != gjson.GetBytes(ch.Prev.Value, field).Raw
}
