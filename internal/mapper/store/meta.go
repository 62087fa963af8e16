package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"
	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/wire"
)

// putMeta writes meta, which is in no sum but its own.
func (t *Tx) putMeta() error {
	b, err := json.Marshal(t.meta)
	if err != nil {
		return fmt.Errorf("encode meta: %w", err)
	}
	return t.bucket(metaBucket).Put(metaKey, fmt.Appendf(b, "\n%s", wire.SumOf(b)))
}

// readMeta reads meta and compares it with its sum. The first agents wrote no sums: a
// store of theirs has the sum of what is there, which is written with the next change.
func readMeta(b *bolt.Tx) (*Meta, error) {
	value, _ := values{tx: b}.get(metaBucket, string(metaKey))
	text, sum, summed := bytes.Cut(value, []byte("\n"))
	m := &Meta{}
	if !summed && !gjson.GetBytes(text, "written").Exists() {
		if err := json.Unmarshal(text, m); err != nil {
			return nil, fmt.Errorf("decode meta: %w", err)
		}
		return m, sumValues(b, m)
	}
	if string(sum) != wire.SumOf(text).String() {
		return nil, errors.New("meta does not have its sum")
	}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("decode meta: %w", err)
	}
	return m, nil
}

// saw takes note of the place of a put.
func (m *Meta) saw(p marks.Pair) {
	if p.Revision > m.Seen.Revision {
		m.Seen = p
	}
}

// prunePercent is the bound of removals as long as nothing was heard that is believed.
const prunePercent = 30

// hear takes over what the hub says of the location. What loosens a protection waits
// as long as the hub's log is not proven, and in a new store until all that was found
// at the target is: the log may be an older copy, from before the protection.
func (m *Meta) hear(s wire.Settings, proven bool) {
	m.Heard = nil
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
	if !bounded.Equal(s) {
		m.Heard = &s
	}
	m.Settings = bounded
}

// Halt is why the agent is to change nothing; empty: it works.
func (m *Meta) Halt() string {
	if m.Heard != nil && m.Heard.Halt == "" && m.Settings.Halt != "" {
		return m.Settings.Halt + "; the hub does not say so any more, which waits until its log is accepted"
	}
	return m.Settings.Halt
}

// Meta is what the store knows of itself. It is changed only in transactions.
type Meta struct {
	Location    string `json:"location"`
	LocationUID string `json:"locationUID,omitempty"`
	// Marker and Revision are those of the last mark in proven lineage.
	Marker   string `json:"marker,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	// Seen is the newest place of a put since that mark, whose object may be applied.
	Seen marks.Pair `json:"seen,omitzero"`
	// Accepted is the place in the log at which an operator accepted one last, and
	// Epoch how often that has been.
	Accepted marks.Pair `json:"accepted,omitzero"`
	Epoch    int        `json:"epoch,omitempty"`
	// Root and Count describe the bucket of desired content, always.
	Root  wire.Sum `json:"root"`
	Count int      `json:"count"`
	// Written is the sum of all values in the other buckets, always.
	Written wire.Sum `json:"written"`
	// Deferred counts entries that wait for proof of lineage.
	Deferred int `json:"deferred,omitempty"`
	// Unsent counts reports that the hub does not have yet.
	Unsent int `json:"unsent,omitempty"`
	// Settings are those that are followed. Heard is what the hub says, if some of it
	// waits; Fresh says that a new store has not seen yet that what is at the target
	// is of the hub's log.
	Settings wire.Settings  `json:"settings"`
	Heard    *wire.Settings `json:"heard,omitempty"`
	Fresh    bool           `json:"fresh,omitempty"`
	// Survey says that the target is yet to be searched for what a new store knows
	// nothing of.
	Survey bool        `json:"survey,omitempty"`
	Prune  pruneWindow `json:"prune,omitempty"`
	// Guarded describes the bucket of removals that wait for a confirmation, always.
	Guarded GuardSums `json:"guarded,omitempty"`
	// ReportsAgreed says that hub and agent have compared their reports since the
	// hub wrote ReportsMarker, at its start.
	ReportsAgreed bool   `json:"reportsAgreed,omitempty"`
	ReportsMarker string `json:"reportsMarker,omitempty"`
}

// Welcome takes note of the hello of a hub, whose log is proven to continue ours or not.
func (t *Tx) Welcome(h wire.Hello, proven bool) {
	if t.meta.LocationUID == "" {
		t.meta.LocationUID = h.UID
	}
	if !proven || t.meta.ReportsMarker != h.Marker {
		// The hub has started anew, perhaps from a copy that lacks reports.
		t.meta.ReportsAgreed, t.meta.ReportsMarker = false, h.Marker
	}
	t.meta.hear(h.Settings, proven)
}

// Accept takes the log of a hello for the continuation of the one before, by an
// operator's word.
func (t *Tx) Accept(h wire.Hello) {
	t.meta.LocationUID, t.meta.Marker, t.meta.Revision = h.UID, h.Marker, h.Revision
	t.meta.Seen = marks.Pair{}
	t.meta.Accepted, t.meta.Epoch = marks.NewPair(h.Marker, h.Revision), t.meta.Epoch+1
	t.meta.ReportsAgreed = false
}

// ReportsAgreed takes note that hub and agent have compared their reports.
func (t *Tx) ReportsAgreed() { t.meta.ReportsAgreed = true }

// Surveyed takes note that the target was searched.
func (t *Tx) Surveyed() { t.meta.Survey = false }

// Trust ends the caution of a new store, and returns what this lets go.
func (t *Tx) Trust() ([]Touched, error) {
	t.meta.Fresh = false
	if t.meta.Heard != nil {
		t.meta.hear(*t.meta.Heard, true)
	}
	return t.confirm()
}
