package presence

import (
	"strings"
	"sync"
	"time"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
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
	gone map[key.Session]time.Time
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

// Gone is since when an agent has no session at any hub, as far as this process has seen one
// end; zero: it has not.
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
}

// Observe implements table.Observer.
func (x *Index) Observe(_ int64, changes []table.Change) {
	var taken []key.Session
	var left []key.Location
	locations := key.ResourcePrefix(key.Root, key.Locations)
	x.mu.Lock()
	for _, ch := range changes {
		k := ch.Row().Key
		if name, is := strings.CutPrefix(k, locations); is && ch.Cur == nil {
			left = append(left, key.Location(name))
		}
		if key.ClassOf(k) != key.Sessions {
			continue
		}
		of, ok := key.SessionOf(k)
		if !ok {
			continue
		}
		if ch.Cur == nil {
			x.closed(of)
			continue
		}
		x.open[of] = struct{}{}
		delete(x.gone, of)
		if x.taken != nil && readSession(ch.Cur).Hub != x.own {
			taken = append(taken, of)
		}
	}
	for _, of := range x.before {
		if _, again := x.open[of]; !again {
			x.gone[of] = x.now()
		}
	}
	x.before = nil
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

// closed notes that a session has ended. That is remembered for as long as this process lives:
// there are no more than there were agents.
func (x *Index) closed(of key.Session) {
	delete(x.open, of)
	x.gone[of] = x.now()
}
