// Package presence is who is there, as all hubs on a log see it: the hubs that live, the
// sessions of agents, and what agents say of themselves.
//
// Each hub has a lease, and writes its own key and those of its sessions under it: when it
// dies they go, all at once. They are written when a session begins and when it ends; a
// heartbeat is never a write. The package must never decide what follows from who is there.
package presence

import (
	"encoding/json"
	"time"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Hub is what a hub that lives says of itself, at key.Hub.
type Hub struct {
	// URL is where it serves, and Version its own.
	URL     string `json:"url"`
	Version string `json:"version"`
	// Needs is the oldest revision that its readers resume from, and Seen one that its table
	// has reached; 0: it has not said so. Both are said again now and then.
	Needs int64 `json:"needs,omitempty"`
	Seen  int64 `json:"seen,omitempty"`
	// Schema is the version of the schemas of its kinds, and Kinds those of the kinds that have
	// changed since version 1, such as placements.orrery.dev. 0: a hub that does not number them.
	Schema int            `json:"schema,omitempty"`
	Kinds  map[string]int `json:"kinds,omitempty"`
}

// Session is who has the session of an agent, at Session.Key: the hub that has written it
// last. It says what is so of the session as long as it lasts.
type Session struct {
	// Hub is the ID of the hub, and Since when the session began, by the hub's clock.
	Hub   string    `json:"hub"`
	Since time.Time `json:"since"`
	// Lacks is what of the location's spec the agent does not know, and may not ignore; empty:
	// nothing. Blind says that it does not report what was not placed.
	Lacks string `json:"lacks,omitempty"`
	Blind bool   `json:"blind,omitempty"`
}

// Said is what an agent has said last, at Session.Said, to whichever hub, and what that hub
// has to say of it. It stays when the session ends.
type Said struct {
	// UID is that of the Location.
	UID string `json:"uid"`
	// Status is what it said of itself; nil: nothing yet. SignedBy names the authority that had
	// signed the credential which that was sent with; empty: none.
	Status   *wire.AgentStatus `json:"status,omitempty"`
	SignedBy string            `json:"signedBy,omitempty"`
	// Refused is the protocol version for which an agent was refused; empty if none was,
	// or one has connected since.
	Refused string `json:"refused,omitempty"`
	// Strange is the shard for which an agent has asked that the location does not have; empty
	// if none has, or one has connected since.
	Strange string `json:"strange,omitempty"`
	// Heard is when a hub has last noted, by its clock, that the agent has asked something for a
	// while though it has no session, as one does that walks for long. Others go by that it has
	// changed.
	Heard time.Time `json:"heard,omitzero"`
	// Exceeds is how many reports of what was not placed of its last request had no room.
	Exceeds int `json:"exceeds,omitempty"`
}

// Hubs are the hubs that live in a state of the log, by ID.
func Hubs(state table.Reader) map[string]Hub {
	all := map[string]Hub{}
	state.Ascend(key.Hubs.Prefix(), func(row *table.Row) bool {
		var h Hub
		if json.Unmarshal(row.Value, &h) == nil {
			all[row.Key[len(key.Hubs.Prefix()):]] = h
		}
		return true
	})
	return all
}

// SessionsOf are the sessions of a location's agents in a state of the log, by shard.
func SessionsOf(state table.Reader, l key.Location) map[key.Shard]Session {
	var all map[key.Shard]Session
	state.Ascend(key.LocationSessions(l), func(row *table.Row) bool {
		if of, ok := key.SessionOf(row.Key); ok {
			if all == nil {
				all = map[key.Shard]Session{}
			}
			all[of.Shard] = readSession(row)
		}
		return true
	})
	return all
}

// Open says whether an agent of a location holds a session, at any hub.
func Open(state table.Reader, l key.Location) (open bool) {
	state.Ascend(key.LocationSessions(l), func(*table.Row) bool { open = true; return false })
	return open
}

// SaidBy is what the agent of a session of the location with a UID has said last; nil:
// nothing.
func SaidBy(state table.Reader, s key.Session, uid string) *Said {
	row := state.Get(s.Said())
	if row == nil {
		return nil
	}
	var said Said
	if json.Unmarshal(row.Value, &said) != nil || said.UID != uid {
		return nil
	}
	return &said
}

func readSession(row *table.Row) (s Session) {
	_ = json.Unmarshal(row.Value, &s) // what can't be read is a session of nobody known
	return s
}
