package store

import (
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Hub changes the facts in Meta that the agent receives from the hub: the log and the settings.
type Hub struct{ values }

// Welcome takes over the hello of a hub. proven reports whether its log continues the log that the
// store knows.
func (h Hub) Welcome(hello wire.Hello, proven bool) {
	if h.meta.LocationUID == "" {
		h.meta.LocationUID = hello.UID
	}
	h.meta.Superseded = ""               // the hub accepts the agent's credential
	if h.meta.LocationUID == hello.UID { // the location exists, so no other one can have taken over from it
		h.meta.Successor = ""
	}
	if !proven || h.meta.ReportsMarker != hello.Marker {
		// The hub has restarted, perhaps from a copy that lacks reports.
		h.meta.ReportsAgreed, h.meta.ReportsMarker = false, hello.Marker
	}
	h.meta.applySettings(hello.Settings, proven)
	if h.meta.isMoved() && !h.hasPlacedObjects() {
		h.meta.Placing = key.Placing(hello.Settings.Namespaces)
	}
}

// hasPlacedObjects reports whether the store has anything about placed objects, whose places depend
// on the namespace mapping.
func (h Hub) hasPlacedObjects() bool {
	for _, name := range [][]byte{desiredBucket, recordBucket, reportBucket} {
		// Reports of other objects are last in their bucket. They have no places.
		if k, _ := h.bucket(name).Cursor().First(); k != nil && IsPlaced(string(k)) {
			return true
		}
	}
	return false
}

// Accept takes the log of a hello for the continuation of the previous log, on request of an
// administrator.
func (h Hub) Accept(hello wire.Hello) {
	h.meta.Reached, h.meta.Superseded = h.meta.Newest(), ""
	h.meta.LocationUID, h.meta.Marker, h.meta.Revision = hello.UID, hello.Marker, hello.Revision
	h.meta.Seen, h.meta.Successor = ownership.Pair{}, ""
	h.meta.Accepted, h.meta.Epoch = ownership.NewPair(hello.Marker, hello.Revision), h.meta.Epoch+1
	h.meta.ReportsAgreed = false
}

// SetReportsAgreed records that hub and agent have compared their reports.
func (h Hub) SetReportsAgreed() { h.meta.ReportsAgreed = true }

// SetSuperseded records that the hub has refused a credential because another agent has joined the
// location. The next hello clears it.
func (h Hub) SetSuperseded(credential string) { h.meta.Superseded = credential }

// endFresh ends the caution of a new store: the settings of the hub apply.
func (h Hub) endFresh() {
	h.meta.Fresh = false
	if h.meta.Waiting != nil {
		h.meta.applySettings(*h.meta.Waiting, true)
	}
}
