// Package judge says how far one object is at one location. It is the one rule by
// which everything goes that says so: counts, answers to questions, columns, the
// status of Placements and Locations, what agents are told.
//
// What it says is a function of the object's row, how that is placed, what the
// location reports and whether it is away. It must never look at anything else.
package judge

import (
	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/wire"
)

// Pending is the state of an object that a location has yet to report as it is now.
const Pending wire.State = "Pending"

// Digest gives the digest of what locations of a class get of an entry. An error says
// that nothing can be made of it. It must be a function of the entry and the class.
type Digest func(*table.Entry, *placement.Class) (wire.Sum, error)

// Desired is what a location is to have of an object: the digest of what is made of
// it, unless it is to keep what it has or has another space's object.
type Desired struct {
	Digest wire.Sum
	Policy wire.Policy
	// Held is why the location keeps what it has, HeldFor the reason in one word.
	Held, HeldFor string
	// Owner is the path of another space's object that the location has instead.
	Owner string
}

// DesiredOf is what a location that is assigned a row's object is to have of it.
func DesiredOf(digest Digest, row *table.Row, p placement.Place) Desired {
	d := Desired{Policy: p.Policy, Held: p.Held, HeldFor: p.HeldFor, Owner: p.Owner}
	if d.Owner != "" || d.Held != "" {
		return d
	}
	var err error
	if d.Digest, err = digest(row.Entry, p.Class); err != nil {
		d.Held, d.HeldFor = err.Error(), v1alpha1.ReasonNotRendered
	}
	return d
}

// Verdict is how far an object is at a location.
type Verdict struct {
	State           wire.State
	Reason, Message string
	// Since is when the location came to say so, as its report has it; empty if the
	// state is not of a report.
	Since string
	// Stale says that the location is away, see Away: this is what it said last.
	Stale bool
	// Unassigned says that the location is not to have the object: it removes it, or
	// reports why it stays.
	Unassigned bool
}

// Failing says that the object is not at the location as it is to be, and won't be
// before somebody changes something.
func (v Verdict) Failing() bool {
	switch v.State {
	case wire.Failed, wire.Unsupported, wire.InConflict:
		return true
	case wire.Held:
		return v.Reason == v1alpha1.ReasonNotRendered
	}
	return false
}

// Mutated says that the object is applied but for what the location's cluster makes of it.
func (v Verdict) Mutated() bool { return v.State == wire.Applied && v.Reason == v1alpha1.ReasonMutated }

// Assigned is the verdict about an object that a location is to have. report is the
// location's report as the log has it, nil if there is none.
func Assigned(digest Digest, row *table.Row, p placement.Place, report []byte, away bool) Verdict {
	d := DesiredOf(digest, row, p)
	switch {
	case d.Owner != "":
		return Verdict{State: wire.InConflict, Reason: v1alpha1.ReasonOtherSpace, Message: wire.OtherSpace(d.Owner), Stale: away}
	case d.Held != "":
		return Verdict{State: wire.Held, Reason: d.HeldFor, Message: d.Held, Stale: away}
	}
	said := read(report)
	if said.uid != row.Meta.UID || said.State == wire.Applied && said.digest != d.Digest {
		return Verdict{State: Pending, Stale: away} // it is about an earlier object of the name, or about what was desired before
	}
	said.Stale = away
	return said.Verdict
}

// Left is the verdict about an object that a location reports and is not to have.
func Left(report []byte, away bool) Verdict {
	said := read(report).Verdict
	if said.State != wire.Removing && said.State != wire.Orphaned {
		said = Verdict{State: wire.Removing, Message: "the location has yet to remove it"}
	}
	said.Stale, said.Unassigned = away, true
	return said
}

// Stays says that the object is there though the location is not to have it, and that
// the location does not remove it. What was let go as its policy had it is none.
func (v Verdict) Stays() bool {
	return v.Unassigned && v.State == wire.Orphaned && v.Reason != v1alpha1.ReasonReleased
}

// Reported is the digest of what a location reports to have applied last.
func Reported(report []byte) wire.Sum { return read(report).digest }

// said is what a report says, but for the status in it.
type said struct {
	Verdict
	uid    string
	digest wire.Sum
}

// read takes from a report what comes before the status, which may be large.
func read(report []byte) (s said) {
	gjson.ParseBytes(report).ForEach(func(name, value gjson.Result) bool {
		switch name.Str {
		case "uid":
			s.uid = value.Str
		case "digest":
			if s.digest.UnmarshalText([]byte(value.Str)) != nil {
				s.digest = wire.Sum{}
			}
		case "state":
			s.State = wire.State(value.Str)
		case "reason":
			s.Reason = value.Str
		case "message":
			s.Message = value.Str
		case "since":
			s.Since = value.Str
		case "status":
			return false
		}
		return true
	})
	return s
}
