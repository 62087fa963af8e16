package key

import "strings"

const (
	// Hubs contains one key for each running hub, under its lease: h/ID.
	Hubs Class = "h"
	// Sessions contains the hub that holds the session of an agent, under the lease of that hub:
	// s/LOCATION/SHARD.
	Sessions Class = "s"
	// AgentStatuses contains the status of each agent, from the hub that last received it:
	// a/LOCATION/SHARD.
	AgentStatuses Class = "a"
	// Drops contains, for each location, the time at which the hub last removed reports that no
	// space requests any more: d/LOCATION.
	Drops Class = "d"
	// Elections contains the leader of each elected task, under its lease: l/TASK.
	Elections Class = "l"
)

// Leased reports whether the keys of a class belong to the lease of the hub that wrote them. etcd
// deletes them when the lease ends, so their deletion does not prove that a hub wrote it.
func (c Class) Leased() bool { return c == Hubs || c == Sessions || c == Elections }

// Session identifies the session of the agent of one shard of a location.
type Session struct {
	Location Location
	Shard    Shard
}

// WholeOf returns the session of a location without shards.
func WholeOf(l Location) Session { return Session{Location: l} }

// Key returns the key of the session, whose value is the hub that holds it.
func (s Session) Key() string { return s.below(Sessions) }

// StatusKey returns the key of the agent's status.
func (s Session) StatusKey() string { return s.below(AgentStatuses) }

func (s Session) below(c Class) string {
	return c.Prefix() + string(s.Location) + "/" + s.Shard.String()
}

// SessionOf returns the session in a key of Sessions or AgentStatuses; false for another key.
func SessionOf(k string) (s Session, ok bool) {
	class, rest, _ := strings.Cut(k, "/")
	if c := Class(class); c != Sessions && c != AgentStatuses {
		return Session{}, false
	}
	l, text, _ := strings.Cut(rest, "/")
	shard, err := ParseShard(text)
	return Session{Location(l), shard}, err == nil
}

// LocationSessions returns the prefix of the sessions of a location.
func LocationSessions(l Location) string { return Sessions.Prefix() + string(l) + "/" }

// LocationAgentStatuses returns the prefix of the statuses of a location's agents.
func LocationAgentStatuses(l Location) string { return AgentStatuses.Prefix() + string(l) + "/" }

// Dropped returns the key of the time at which the hub last removed reports of a location.
func Dropped(l Location) string { return Drops.Prefix() + string(l) }

// Hub returns the key of a running hub.
func Hub(id string) string { return Hubs.Prefix() + id }

// Election returns the key of the leader of an elected task.
func Election(task string) string { return Elections.Prefix() + task }
