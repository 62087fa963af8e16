package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// putMeta writes meta with its own sum. Meta is not part of meta.Written.
func (t *Tx) putMeta() error {
	b, err := json.Marshal(t.meta)
	if err != nil {
		return fmt.Errorf("encode meta: %w", err)
	}
	return t.bucket(metaBucket).Put(metaKey, fmt.Appendf(b, "\n%s", t.meta.sum(b)))
}

// sum is the sum of the text of meta. Where objects have other places, or the store is of a
// shard, it is another one, so that an agent of before, which would put them elsewhere or take
// what is of others for its own, takes the store for damaged and sets it aside.
func (m *Meta) sum(text []byte) wire.Sum {
	said := string(text)
	if m.Placing != key.Same {
		said = string(m.Placing) + "\n" + said
	}
	if !m.Shard.Whole() {
		said = m.Shard.String() + "\n" + said
	}
	return wire.SumOf([]byte(said))
}

// readMeta reads meta and checks its sum. The first agents wrote no sums: for a store of
// theirs they are computed, and written with the next change.
func readMeta(b *bolt.Tx) (*Meta, error) {
	value, _ := values{tx: b}.stored(metaBucket, string(metaKey))
	text, sum, summed := bytes.Cut(value, []byte("\n"))
	m := &Meta{}
	if !summed && !gjson.GetBytes(text, "written").Exists() {
		if err := json.Unmarshal(text, m); err != nil {
			return nil, fmt.Errorf("decode meta: %w", err)
		}
		return m, sumValues(b, m)
	}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("decode meta: %w", err)
	}
	if string(sum) != m.sum(text).String() {
		return nil, errors.New("meta does not have its sum")
	}
	return m, nil
}

// saw notes the place of a put.
func (m *Meta) saw(p ownership.Pair) {
	if p.Revision > m.Seen.Revision {
		m.Seen = p
	}
}

// prunePercent is the bound of removals until the hub's settings are known.
const prunePercent = 30

// hear takes over the location's settings. Those that loosen a protection wait as long as
// the hub's log is not proven, and in a new store until all objects found at the target
// are proven: the log may be an older copy, from before the protection.
func (m *Meta) hear(s wire.Settings, proven bool) {
	m.Heard = nil
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
	if !proven { // what a new store finds, each object proves by itself
		bounded.TakesOver = slices.DeleteFunc(slices.Clone(s.TakesOver), func(mark string) bool { return !slices.Contains(m.Settings.TakesOver, mark) })
	}
	if !bounded.Equal(s) {
		m.Heard = &s
	}
	m.Settings = bounded
}

// Halt is why the agent must not change anything at the target; empty: it may.
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
	if m.moved() {
		return "the location's namespaces are " + cmp.Or(m.Settings.Namespaces, "Same") + ", and this agent has placed objects by another rule; begin with an empty data directory"
	}
	if m.Heard != nil && m.Heard.Halt == "" && m.Settings.Halt != "" {
		return m.Settings.Halt + "; the hub does not say so any more, which waits until its log is accepted"
	}
	return m.Settings.Halt
}

// Observes reports whether a halted agent goes on observing and reporting: the hub's settings alone
// halt it, so that the store is right about what is at the target.
func (m *Meta) Observes() bool {
	return m.Settings.Halt != "" && m.Successor == "" && m.Superseded == "" && m.Newer == "" && !m.moved()
}

// moved says that the location puts objects elsewhere than where the store has them. Before
// the first hello nothing is known of that.
func (m *Meta) moved() bool {
	return m.LocationUID != "" && m.Settings.Namespaces != string(m.Placing)
}

// Meta describes the store and the session's progress. It changes only in transactions.
type Meta struct {
	Location    key.Location `json:"location"`
	LocationUID string       `json:"locationUID,omitempty"`
	// Placing is where the location puts objects. It does not change while the store has any.
	Placing key.Placing `json:"placing,omitempty"`
	// Shard is the part of the location that the store is of. Gained says that it was of
	// another one before: what is desired of the spaces that have come is not known before a
	// walk has ended.
	Shard  key.Shard `json:"shard,omitzero"`
	Gained bool      `json:"gained,omitempty"`
	// ID names the store among all that the shard has had; empty: it had no shard yet.
	// Outdated reports that another agent has had the shard since, or that the store is an older
	// copy, so that the next start begins with a new store.
	ID       string `json:"id,omitempty"`
	Outdated bool   `json:"outdated,omitempty"`
	// Marker and Revision are those of the last wire mark from a proven log.
	Marker   string `json:"marker,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	// Seen is the newest place of a put since that mark; its object may be applied already.
	Seen ownership.Pair `json:"seen,omitzero"`
	// Accepted is the place in the log at which an operator last accepted a log, and
	// Epoch how often one was accepted.
	Accepted ownership.Pair `json:"accepted,omitzero"`
	Epoch    int            `json:"epoch,omitempty"`
	// Root and Count are those of the desired content, in every transaction.
	Root  wire.Sum `json:"root"`
	Count int      `json:"count"`
	// Written is the sum of all values in all buckets but meta's, in every transaction.
	Written wire.Sum `json:"written"`
	// Deferred counts entries that wait for proof of lineage.
	Deferred int `json:"deferred,omitempty"`
	// Unsent counts reports that the hub does not have yet.
	Unsent int `json:"unsent,omitempty"`
	// Settings are those in force. Heard are the hub's, if some of them wait. Fresh says
	// that the store is new, and that the objects at the target are not proven yet to be
	// of the hub's log.
	Settings wire.Settings  `json:"settings"`
	Heard    *wire.Settings `json:"heard,omitempty"`
	Fresh    bool           `json:"fresh,omitempty"`
	// Successor is a location that has taken over what this one has at the target: by what
	// stands there, since no hub has said since then that this one exists. Empty: none.
	Successor ownership.Owner `json:"successor,omitempty"`
	// Superseded is the fingerprint of a credential that the hub has refused for good, since
	// another agent has joined the location. Empty: there is none.
	Superseded string `json:"superseded,omitempty"`
	// Reached is the highest revision of what the store was given, in any log.
	Reached int64 `json:"reached,omitempty"`
	// Newer is what at the target shows that the store is older than that. Empty: nothing does.
	Newer string `json:"newer,omitempty"`
	// Life names the store among all that the location has had, and Moves counts changes of
	// what is recorded, and of reports that something has run to its end.
	Life  string `json:"life,omitempty"`
	Moves uint64 `json:"moves,omitempty"`
	// Replaces is the state of a store that the Lease of the location named before an agent first acted
	// with this one; the zero State if there was no Lease. Nil: no agent has looked for it yet.
	Replaces *State `json:"replaces,omitempty"`
	// Cluster is the cluster to which what is recorded and reported belongs.
	Cluster Cluster `json:"cluster,omitzero"`
	// Survey says that the target has yet to be searched for objects that a new store
	// does not know.
	Survey bool `json:"survey,omitempty"`
	// Inherits says that objects at the target have become this location's of which the
	// store may have no record, so that each start searches it, too.
	Inherits bool        `json:"inherits,omitempty"`
	Prune    pruneWindow `json:"prune,omitempty"`
	// Guarded describes the removals that wait for a confirmation, in every transaction.
	Guarded GuardSums `json:"guarded,omitempty"`
	// ReportsAgreed says that hub and agent have compared their reports since the
	// hub wrote ReportsMarker, at its start.
	ReportsAgreed bool   `json:"reportsAgreed,omitempty"`
	ReportsMarker string `json:"reportsMarker,omitempty"`
	// Aggregated has the resources, as RESOURCE.GROUP, that the target has served without a
	// CustomResourceDefinition: their objects are not gone when the target ceases to serve them.
	Aggregated []string `json:"aggregated,omitempty"`
}

// State is a state of a store: its Life, and its Moves.
type State struct {
	ID    string `json:"id"`
	Moves uint64 `json:"moves"`
}

// Cluster identifies a cluster.
type Cluster struct {
	// UID is that of the Namespace kube-system, which a cluster has as long as it is the same one.
	UID string `json:"uid"`
	// Others are the UIDs of other Namespaces, by name, for when the agent may not read kube-system.
	Others map[string]string `json:"others,omitempty"`
	// Replaced is when the cluster took the place of another one; zero: it has not.
	Replaced time.Time `json:"replaced,omitzero"`
}

// Welcome notes the hello of a hub. proven says that its log continues the one that the
// store knows.
func (t *Tx) Welcome(h wire.Hello, proven bool) {
	if t.meta.LocationUID == "" {
		t.meta.LocationUID = h.UID
	}
	t.meta.Superseded = ""           // the hub knows the agent
	if t.meta.LocationUID == h.UID { // it exists, so nobody can have taken over from it
		t.meta.Successor = ""
	}
	if !proven || t.meta.ReportsMarker != h.Marker {
		// The hub has restarted, perhaps from a copy that lacks reports.
		t.meta.ReportsAgreed, t.meta.ReportsMarker = false, h.Marker
	}
	t.meta.hear(h.Settings, proven)
	if t.meta.moved() && t.blank() {
		t.meta.Placing = key.Placing(h.Settings.Namespaces)
	}
}

// blank says that the store has nothing that has a place.
func (t *Tx) blank() bool {
	for _, name := range [][]byte{desiredBucket, recordBucket, reportBucket} {
		// Reports of what was not placed come last; where that is, is looked at anew.
		if k, _ := t.bucket(name).Cursor().First(); k != nil && IsPlaced(string(k)) {
			return false
		}
	}
	return true
}

// Accept takes the log of a hello for the continuation of the one before, as an operator
// has said.
func (t *Tx) Accept(h wire.Hello) {
	t.meta.Reached, t.meta.Superseded = t.meta.Newest(), ""
	t.meta.LocationUID, t.meta.Marker, t.meta.Revision = h.UID, h.Marker, h.Revision
	t.meta.Seen, t.meta.Successor = ownership.Pair{}, ""
	t.meta.Accepted, t.meta.Epoch = ownership.NewPair(h.Marker, h.Revision), t.meta.Epoch+1
	t.meta.ReportsAgreed = false
}

// ReportsAgreed notes that hub and agent have compared their reports.
func (t *Tx) ReportsAgreed() { t.meta.ReportsAgreed = true }

// Surveyed notes that the target was searched.
func (t *Tx) Surveyed() {
	t.meta.Survey = false
	t.meta.Inherits = t.meta.Inherits && len(t.meta.Settings.TakesOver) > 0
}

// Outdate notes that another agent has acted with another store, or a newer copy of this one.
func (t *Tx) Outdate() { t.meta.Outdated = true }

// Replace keeps which state of a store the Lease of the location named before an agent acted with this one.
func Replace(t *Tx, s State) { t.meta.Replaces = &s }

// Inherits notes that objects are taken over.
func (t *Tx) Inherits() { t.meta.Inherits = true }

// Succeeded notes that another location has taken over what this one has at the target.
func (t *Tx) Succeeded(by ownership.Owner) { t.meta.Successor = by }

// Formers are the owners that the location takes over from.
func (m *Meta) Formers() (all []ownership.Owner) {
	for _, mark := range m.Settings.TakesOver {
		all = append(all, ownership.Owner(mark))
	}
	return all
}

// Trust ends the caution of a new store, and returns the removals that are confirmed
// thereby.
func (t *Tx) Trust() ([]Touched, error) {
	t.meta.Fresh = false
	if t.meta.Heard != nil {
		t.meta.hear(*t.meta.Heard, true)
	}
	return t.confirm()
}

// Superseded is why an agent is halted whose credential the hub has refused, since another agent
// has joined the location.
const Superseded = "another agent has joined the location by a newer join token, and the hub has locked this one out for good: " +
	"it changes nothing at the cluster any more; stop it, or set it up again by a new token: orrery location token NAME"

// Newest is the highest revision that the store has reached.
func (m *Meta) Newest() int64 {
	return max(m.Reached, m.Revision, m.Seen.Revision, m.Accepted.Revision)
}

// Supersede notes that the hub has refused a credential, since another agent has joined the
// location. A hello ends that.
func Supersede(t *Tx, credential string) { t.meta.Superseded = credential }

// Doubt notes what at the target shows that the store is older than that. Nothing ends that: the
// next store is a new one.
func Doubt(t *Tx, newer string) { t.meta.Newer = newer }

// movedOn counts a change of what is recorded, which an older copy of the store does not have.
func (m *Meta) movedOn() { m.Moves++ }
