package store

import (
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Source identifies one rendering of a source object.
type Source struct {
	UID        string      `json:"uid"`
	Generation int64       `json:"gen,omitempty"`
	Digest     wire.Sum    `json:"digest"`
	Policy     wire.Policy `json:"policy,omitzero"`
	// Log is the log position at which the hub sent it. In a record, it is the position in the
	// ownership metadata of the object at the cluster. Epoch counts the logs accepted before.
	Log   ownership.Pair `json:"log,omitzero"`
	Epoch int            `json:"epoch,omitempty"`
}

// Record describes an object that the agent applied at the cluster. Each identity has one record:
// objects of two spaces with the same identity replace each other.
type Record struct {
	Space  key.Space `json:"space"`
	Source Source    `json:"source"`
	// Moved is the Moved of the object's key.Located.
	Moved string `json:"moved,omitempty"`
	// UID is the UID of the object at the cluster.
	UID string `json:"uid"`
	// As is the owner in the ownership metadata of the object. It is empty in records of older agents.
	As ownership.Owner `json:"as,omitempty"`
	// Generation is the generation of the object at the cluster after the last apply.
	Generation int64 `json:"generation,omitempty"`
	// Fields is the hash of the managed fields of the agent after the last apply.
	Fields  ownership.FieldsHash `json:"fields"`
	Version string               `json:"version"`
	Kind    string               `json:"kind"`
	// Mutated lists the fields that admission at the cluster changed in the last apply; nil if there
	// are none.
	Mutated *Mutation `json:"mutated,omitempty"`
	// Recreation is the source for which the object is to be deleted and created again, once the
	// removal guard has counted the deletion; nil if it has not.
	Recreation *Recreation `json:"recreation,omitempty"`
	// LetGo is the reason why the object ceased to be desired the last time; nil if it is unknown.
	LetGo *LetGo `json:"letGo,omitempty"`
}

// LetGo is the reason why an object ceased to be desired: the cause, and the Placement.
type LetGo struct {
	Cause     wire.Cause `json:"cause"`
	Placement string     `json:"placement,omitempty"`
}

// Recreation names the source for which an object at the cluster is to be deleted and created
// again. While a record has it, the removal guard has counted the deletion.
type Recreation struct {
	UID    string   `json:"uid"`
	Digest wire.Sum `json:"digest"`
}

// RecreationFor returns the recreation for a source.
func RecreationFor(s Source) *Recreation { return &Recreation{UID: s.UID, Digest: s.Digest} }

// Recreates reports whether the removal guard has counted the deletion of the object, to create it
// again for a source.
func (r *Record) Recreates(s Source) bool {
	return r != nil && r.Recreation != nil && *r.Recreation == *RecreationFor(s)
}

// located returns the object and its place at the cluster, by its identity there.
func (r *Record) located(id key.Identity) key.Located {
	return key.Located{Object: key.Object{Space: r.Space, Identity: id}, Moved: r.Moved}
}

// Mutation describes the changes that admission at the cluster made in the last apply.
type Mutation struct {
	// Fields lists the changed fields, in the form of a message.
	Fields string `json:"fields"`
	// Tries counts how often the agent applied the object again in vain, and Due is the time of the
	// next attempt.
	Tries uint8     `json:"tries,omitempty"`
	Due   time.Time `json:"due"`
}
