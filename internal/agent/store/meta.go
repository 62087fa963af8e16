package store

import (
	"cmp"
	"slices"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Superseded is the reason why an agent is halted after the hub refused its credential, because
// another agent has joined the location.
const Superseded = "another agent has joined the location by a newer join token, and the hub has locked this one out for good: " +
	"it changes nothing at the cluster any more; stop it, or set it up again by a new token: orrery location token NAME"

// prunePercent is the limit of removals until the agent knows the settings of the location.
const prunePercent = 30

// Meta has the facts about the store, the hub's log and the cluster that do not belong to one
// object. It changes in transactions only.
type Meta struct {
	Location    key.Location `json:"location"`
	LocationUID string       `json:"locationUID,omitempty"`
	// Placing is the namespace mapping by which the objects of the store were placed. It changes only
	// while the store has no objects.
	Placing key.Placing `json:"placing,omitempty"`
	// Shard is the part of the location whose objects the store has. Gained is true if it was
	// another part before: until a comparison has ended, the desired objects of the added spaces
	// are unknown.
	Shard  key.Shard `json:"shard,omitzero"`
	Gained bool      `json:"gained,omitempty"`
	// ID distinguishes the stores that the shard has had; it is empty until the location has shards.
	// Outdated is true if another agent has acted for the shard, or a newer copy of this store exists:
	// the next start begins with a new store.
	ID       string `json:"id,omitempty"`
	Outdated bool   `json:"outdated,omitempty"`
	// Marker and Revision are the log position of the last bookmark from a proven log.
	Marker   string `json:"marker,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	// Seen is the newest log position of a put frame since that bookmark. The agent may have applied
	// its object already.
	Seen ownership.Pair `json:"seen,omitzero"`
	// Accepted is the log position at which an administrator last accepted a log, and Epoch counts
	// the accepted logs.
	Accepted ownership.Pair `json:"accepted,omitzero"`
	Epoch    int            `json:"epoch,omitempty"`
	// Root is the content hash of the desired entries, and Count their number.
	Root  wire.Sum `json:"root"`
	Count int      `json:"count"`
	// Written is the hash of the values of all buckets but that of Meta.
	Written wire.Sum `json:"written"`
	// Deferred counts the desired entries with a change that waits for proof of the log.
	Deferred int `json:"deferred,omitempty"`
	// Unsent counts the reports that the hub has not acknowledged.
	Unsent int `json:"unsent,omitempty"`
	// Settings are the settings in force. Waiting are the settings of the hub if some of them do not
	// apply yet. Fresh is true for a new store until the objects at the cluster are proven to be
	// of the hub's log.
	Settings wire.Settings  `json:"settings"`
	Waiting  *wire.Settings `json:"heard,omitempty"`
	Fresh    bool           `json:"fresh,omitempty"`
	// Successor is the location that has taken over the objects of this one, according to their
	// ownership metadata. A hello for this location clears it, because the location exists then.
	Successor ownership.Owner `json:"successor,omitempty"`
	// Superseded is the fingerprint of a credential that the hub has refused for good, because
	// another agent has joined the location.
	Superseded string `json:"superseded,omitempty"`
	// Reached is the highest revision that the store has received, in any log.
	Reached int64 `json:"reached,omitempty"`
	// Newer explains why the cluster shows that this store is an older copy. It is empty if the cluster
	// does not.
	Newer string `json:"newer,omitempty"`
	// Life distinguishes the stores that the location has had. Moves counts the changes of records,
	// and the reports of objects that ran to completion.
	Life  string `json:"life,omitempty"`
	Moves uint64 `json:"moves,omitempty"`
	// Replaces is the state of a store that the Lease of the location named before an agent first acted
	// with this store. It is the zero State if there was no Lease, and nil until an agent has read it.
	Replaces *State `json:"replaces,omitempty"`
	// Cluster is the cluster of the records and reports.
	Cluster Cluster `json:"cluster,omitzero"`
	// SearchPending is true if the agent has yet to search the cluster for objects that a new store does
	// not know.
	SearchPending bool `json:"survey,omitempty"`
	// Inherits is true if this location took over objects for which the store may have no record:
	// each start searches the cluster then.
	Inherits bool        `json:"inherits,omitempty"`
	Prune    pruneWindow `json:"prune,omitempty"`
	// Guarded has the number and hash of the pending removals, by group.
	Guarded GuardSums `json:"guarded,omitempty"`
	// ReportsAgreed is true if hub and agent have compared their reports since the hub wrote
	// ReportsMarker, at its start.
	ReportsAgreed bool   `json:"reportsAgreed,omitempty"`
	ReportsMarker string `json:"reportsMarker,omitempty"`
	// Aggregated lists the resources, as RESOURCE.GROUP, that the cluster has served without a
	// CustomResourceDefinition: if the cluster ceases to serve them, their objects still exist.
	Aggregated []string `json:"aggregated,omitempty"`
	// Moved lists the resources that were in Aggregated until the cluster served them by a
	// CustomResourceDefinition. Reports from before that move do not put them back.
	Moved []string `json:"moved,omitempty"`
}

// State identifies the state of a store: Life and Moves of its Meta.
type State struct {
	ID    string `json:"id"`
	Moves uint64 `json:"moves"`
}

// Cluster identifies a cluster.
type Cluster struct {
	// UID is the UID of the Namespace kube-system, which is constant during the life of a cluster.
	UID string `json:"uid"`
	// Others are the UIDs of other Namespaces, by name, for agents that may not read kube-system.
	Others map[string]string `json:"others,omitempty"`
	// Replaced is the time at which the cluster replaced another one; zero if it did not.
	Replaced time.Time `json:"replaced,omitzero"`
}

// sum returns the hash of the encoded Meta. It also covers the namespace mapping and the shard, if
// they are not the default. An agent of an older version, which does not know these fields, would
// misplace objects; it takes the store for damaged and sets it aside.
func (m *Meta) sum(text []byte) wire.Sum {
	hashed := string(text)
	if m.Placing != key.Same {
		hashed = string(m.Placing) + "\n" + hashed
	}
	if !m.Shard.Whole() {
		hashed = m.Shard.String() + "\n" + hashed
	}
	return wire.SumOf([]byte(hashed))
}

// advanceSeen records the log position of a put frame.
func (m *Meta) advanceSeen(p ownership.Pair) {
	if p.Revision > m.Seen.Revision {
		m.Seen = p
	}
}

// applySettings takes over the settings of the location. Settings that loosen a protection wait
// until the hub's log is proven, and in a new store also until all objects found at the cluster are
// proven: the log may be an older copy, from before the protection was set.
func (m *Meta) applySettings(s wire.Settings, proven bool) {
	m.Waiting = nil
	m.ReportsAgreed = m.ReportsAgreed && s.Dropped == m.Settings.Dropped
	if proven && !m.Fresh {
		m.Settings = s
		return
	}
	bounded := s
	bounded.Purge = s.Purge && m.Settings.Purge
	bounded.PruneMaxPercent = min(s.PruneMaxPercent, m.Settings.PruneMaxPercent)
	bounded.Confirm = nil
	if s.Halt == "" && !proven {
		bounded.Halt = m.Settings.Halt
	}
	if !proven { // in a proven log, a new store proves each object that it finds by itself
		bounded.TakesOver = slices.DeleteFunc(slices.Clone(s.TakesOver), func(mark string) bool { return !slices.Contains(m.Settings.TakesOver, mark) })
	}
	if !bounded.Equal(s) {
		m.Waiting = &s
	}
	m.Settings = bounded
}

// Halt returns the reason why the agent must not change the cluster; it is empty if the agent may.
func (m *Meta) Halt() string {
	if m.Successor != "" {
		return "the location " + string(m.Successor) + " has taken over what this one has at the cluster; stop this agent"
	}
	if m.Superseded != "" {
		return Superseded
	}
	if m.Newer != "" {
		return m.Newer + ": this data directory is an older copy, or another agent works for the location; " +
			"nothing is changed until a session with the hub has settled it"
	}
	if m.isMoved() {
		return "the location's namespaces are " + cmp.Or(m.Settings.Namespaces, "Same") + ", and this agent has placed objects by another rule; begin with an empty data directory"
	}
	if m.Waiting != nil && m.Waiting.Halt == "" && m.Settings.Halt != "" {
		return m.Settings.Halt + "; the hub does not say so any more, which waits until its log is accepted"
	}
	return m.Settings.Halt
}

// Observes reports whether a halted agent continues to observe and report. It does if only the
// settings of the hub halt it: the store matches the cluster then.
func (m *Meta) Observes() bool {
	return m.Settings.Halt != "" && m.Successor == "" && m.Superseded == "" && m.Newer == "" && !m.isMoved()
}

// isMoved reports whether the location has another namespace mapping than the objects of the store.
// It is false before the first hello.
func (m *Meta) isMoved() bool {
	return m.LocationUID != "" && m.Settings.Namespaces != string(m.Placing)
}

// Formers returns the owners from which the location takes over objects.
func (m *Meta) Formers() (all []ownership.Owner) {
	for _, mark := range m.Settings.TakesOver {
		all = append(all, ownership.Owner(mark))
	}
	return all
}

// Newest returns the highest revision that the store has reached.
func (m *Meta) Newest() int64 {
	return max(m.Reached, m.Revision, m.Seen.Revision, m.Accepted.Revision)
}

// IsAggregated reports whether the cluster has served a resource without a CustomResourceDefinition.
func (m *Meta) IsAggregated(r key.Resource) bool { return slices.Contains(m.Aggregated, r.String()) }

// hasMoved reports whether a resource is in Moved.
func (m *Meta) hasMoved(r key.Resource) bool { return slices.Contains(m.Moved, r.String()) }

// countMove counts a change that an older copy of the store does not have.
func (m *Meta) countMove() { m.Moves++ }

// isFormer reports whether another location than this one wrote the object last, from which this
// one took it over.
func (m *Meta) isFormer(r *Record) bool {
	return r.As != "" && r.As != ownership.NewOwner(m.Location, m.LocationUID)
}
