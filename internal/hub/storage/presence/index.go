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

// Index is since when agents have no session, as this process has seen it, and tells when
// another hub has taken one over. It is safe for concurrent use, and a table.Observer.
type Index struct {
	now func() time.Time
	// own is the ID of this hub; claims says that it is about to write that it has a session,
	// which will be newer. taken is called for each session that another hub has now.
	own    string
	claims func(key.Session) bool
	taken  func(key.Session)
	// left is called for each Location that is gone.
	left func(key.Location)

	mu   sync.Mutex
	open map[key.Session]struct{}
	// gone is only of agents whose Locations are there, which are located; nil: all are to be
	// observed anew.
	gone    map[key.Session]time.Time
	located map[key.Location]struct{}
	// before are those that were open before a Reset.
	before []key.Session
}

var _ table.Observer = (*Index)(nil)

// NewIndex makes an Index that has observed nothing.
func NewIndex(now func() time.Time) *Index {
	return &Index{now: now, open: map[key.Session]struct{}{}, gone: map[key.Session]time.Time{}}
}

// Follow has the index tell of the sessions of this hub's writer that others take over, and of
// Locations that are gone. It must be called before anything is observed; both must be quick.
func (x *Index) Follow(w *Writer, taken func(key.Session), left func(key.Location)) {
	x.own, x.claims, x.taken, x.left = w.member.ID(), w.claims, taken, left
}

// Gone is since when an agent has no session at any hub, nor is heard without one, as far as this
// process has seen one end, or that it was heard; zero: it has not, or the Location was gone since.
func (x *Index) Gone(of key.Session) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.gone[of]
}

// Reset implements table.Observer.
func (x *Index) Reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for of := range x.open {
		x.before = append(x.before, of)
	}
	clear(x.open)
	x.located = nil
}

// Observe implements table.Observer.
func (x *Index) Observe(_ int64, changes []table.Change) {
	x.mu.Lock()
	left := x.locate(changes)
	var taken []key.Session
	ended := x.before // as were those that are heard without one
	x.before = nil
	for _, ch := range changes {
		k := ch.Row().Key
		class := key.ClassOf(k)
		if class != key.Sessions && class != key.Sayings {
			continue
		}
		of, ok := key.SessionOf(k)
		switch {
		case !ok:
		case class == key.Sayings:
			if heard(ch) {
				ended = append(ended, of)
			}
		case ch.Cur == nil:
			delete(x.open, of)
			ended = append(ended, of)
		default:
			x.open[of] = struct{}{}
			delete(x.gone, of)
			if x.taken != nil && readSession(ch.Cur).Hub != x.own {
				taken = append(taken, of)
			}
		}
	}
	for _, of := range ended {
		_, open := x.open[of]
		if _, there := x.located[of.Location]; there && !open {
			x.gone[of] = x.now()
		}
	}
	x.mu.Unlock()
	for _, of := range taken {
		if !x.claims(of) {
			x.taken(of)
		}
	}
	if x.left != nil {
		for _, l := range left {
			x.left(l)
		}
	}
}

// locate notes which Locations are there, and forgets what was of those that are not. It returns
// those that have gone now.
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
		maps.DeleteFunc(x.gone, func(of key.Session, _ time.Time) bool {
			_, there := x.located[of.Location]
			return !there
		})
	}
	return left
}

// heard says whether a change of what an agent has said says that it was heard without a session.
func heard(ch table.Change) bool {
	if ch.Cur == nil || ch.Prev == nil {
		return false // what is loaded may be of any time
	}
	const field = "heard"
	now := gjson.GetBytes(ch.Cur.Value, field).Raw
	return now != "" && now != gjson.GetBytes(ch.Prev.Value, field).Raw
}
