// Package objectstate says how far one object is at one location. Counts, answers to
// questions, columns, the status of Placements and Locations, and what agents are told
// all follow this one rule.
//
// A status is a function of the object's row, how it is placed, what the location
// reports and whether these are stale. The package must never look at anything
// else.
package objectstate

import (
	"errors"
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Pending is the state of an object whose current version the location has yet to
// report.
const Pending wire.State = "Pending"

// Digest gives the digest of an entry as it is rendered for locations of a class, or
// fails if it can't be rendered. It must be a function of the entry and the class.
type Digest func(*table.Entry, *placement.Class) (wire.Sum, error)

// Desired is what is desired of an object at a location: the digest of the rendered
// object, unless the location keeps what it has or has another space's object instead.
type Desired struct {
	Digest wire.Sum
	Policy wire.Policy
	// Held says why the location keeps what it has; HeldFor is the reason in one word.
	Held, HeldFor string
	// Owner is the path of another space's object that the location has instead.
	Owner string
	// FailedRule is the rule for which it is held, if it is held for one.
	FailedRule FailedRule
}

// FailedRule is a rule of a Customizer, whose name is empty if there is none.
type FailedRule struct {
	Customizer string
	Rule       int
}

// failure is an error of a Digest that says why in one word, and which rule is to blame.
type failure interface {
	error
	Reason() string
	FailedRule() (customizer string, rule int)
}

// DesiredOf is what is desired of a row's object at a location that it is assigned to.
func DesiredOf(digest Digest, row *table.Row, p placement.Place) Desired {
	d := Desired{Policy: p.Policy, Held: p.Held, HeldFor: p.HeldFor, Owner: p.Owner}
	if d.Owner != "" || d.Held != "" {
		return d
	}
	var err error
	if d.Digest, err = digest(row.Entry, p.Class); err != nil {
		d.Held, d.HeldFor = err.Error(), v1alpha1.ReasonNotRendered
		if failed, ok := errors.AsType[failure](err); ok {
			d.Held, d.HeldFor = failed.Error(), failed.Reason()
			d.FailedRule.Customizer, d.FailedRule.Rule = failed.FailedRule()
		}
	}
	return d
}

// Status is how far an object is at a location.
type Status struct {
	State           wire.State
	Reason, Message string
	// Since is when the state and reason last changed, as the report says (RFC 3339);
	// empty if the state is not from a report.
	Since string
	// Stale reports that the status is that of a last report which may be old, see IsStale.
	Stale bool
	// Unassigned says that the object is not assigned to the location: the location
	// removes it, or reports why it stays.
	Unassigned bool
	// FailedRule is the rule for which the object is held, if it is held for one.
	FailedRule FailedRule
	// Health is how the object does at the location, as the report says, HealthNote why it is
	// not Healthy; empty if the state is not from a report, or that does not say.
	Health     wire.Health
	HealthNote string
}

// Healthy says that the object is applied, and does what its spec asks for.
func (v Status) Healthy() bool { return v.State == wire.Applied && v.Health == wire.Healthy }

// Degraded says that the object is applied, and will not do by itself what its spec asks for.
func (v Status) Degraded() bool { return v.State == wire.Applied && v.Health == wire.Degraded }

// Failing says that the object is not at the location as desired, and won't be until
// somebody changes something.
func (v Status) Failing() bool {
	switch v.State {
	case wire.Failed, wire.Unsupported, wire.InConflict:
		return true
	case wire.Held:
		return slices.Contains([]string{v1alpha1.ReasonNotRendered, v1alpha1.ReasonRuleFailed, v1alpha1.ReasonTemplateFailed, v1alpha1.ReasonDefinedOtherwise}, v.Reason)
	}
	return false
}

// Mutated says that the object is applied, but with values that the cluster's admission
// sets otherwise.
func (v Status) Mutated() bool { return v.State == wire.Applied && v.Reason == v1alpha1.ReasonMutated }

// Assigned is the status of an object that is assigned to a location. report is the
// location's report as the log has it, nil if there is none.
func Assigned(digest Digest, row *table.Row, p placement.Place, report []byte, stale bool) Status {
	d := DesiredOf(digest, row, p)
	switch {
	case p.Leaves:
	case d.Owner != "":
		v := Status{State: wire.InConflict, Reason: v1alpha1.ReasonOtherSpace, Message: wire.OtherSpace, Stale: stale}
		if said := contradiction(digest, row, p); said != "" {
			v.Reason, v.Message = v1alpha1.ReasonDefinedOtherwise, said
		}
		return v
	case d.Held != "":
		return Status{State: wire.Held, Reason: d.HeldFor, Message: d.Held, Stale: stale, FailedRule: d.FailedRule}
	}
	said := read(report)
	if p.Leaves {
		return leaving(report, row.Meta.UID, stale)
	}
	if said.uid != row.Meta.UID || said.State == wire.Applied && said.digest != d.Digest {
		return Status{State: Pending, Stale: stale} // the report is about an earlier object of the name, or an earlier desired state
	}
	said.Stale = stale
	return said.Status
}

// contradiction is how the definition of another space that a location has in place of a row's
// contradicts it; empty if it does not, or is none.
func contradiction(digest Digest, row *table.Row, p placement.Place) string {
	if p.Class == nil || p.Class.Definition == nil {
		return ""
	}
	_, err := digest(row.Entry, p.Class)
	if failed, ok := errors.AsType[failure](err); ok && failed.Reason() == v1alpha1.ReasonDefinedOtherwise {
		return failed.Error()
	}
	return ""
}

// Refused is the status of an object that policies place at a location that does not
// admit it, with the reason in one word. It is not assigned there, and what it may still
// have of it is Left.
func Refused(reason string) Status {
	message := "the location does not admit it; orrery why says by which part of its spec.admit"
	if reason == v1alpha1.ReasonClusterScoped {
		message = "the location keeps spaces apart by namespaces of their own (namespaces: Prefixed), and the object is in none"
	}
	return Status{State: wire.Failed, Reason: reason, Message: message}
}

// UnknownLocation is the status of an object whose own annotation names a location that it does
// not get, with the reason in one word.
func UnknownLocation(reason string) Status {
	message := "no location has this name"
	if reason == v1alpha1.ReasonTainted {
		message = "the location has a taint that evicts, see orrery location describe"
	}
	return Status{State: wire.Failed, Reason: reason, Message: message}
}

// Left is the status of an object that a location reports, or is to confirm to be gone,
// though it is not assigned to it. report is nil if it has not reported it.
func Left(report []byte, stale bool) Status {
	said := read(report).Status
	switch {
	case report == nil:
		said = Status{State: wire.Removing, Message: "the location has yet to say that nothing of it is there"}
	case said.State == wire.Held && said.Reason == v1alpha1.ReasonUpsynced:
		said.State, said.Message = wire.Orphaned, "it stays, since a Placement's upsync matches it; its agent is too old to let go of it"
	case said.State != wire.Removing && said.State != wire.Orphaned:
		said = Status{State: wire.Removing, Message: "the location has yet to remove it"}
	}
	said.Stale, said.Unassigned = stale, true
	return said
}

// leaving is the status of an object with a UID that is being deleted, at a location
// that is to confirm that it is gone.
func leaving(report []byte, uid string, stale bool) Status {
	if Removed(report, uid) {
		return Status{State: wire.Removed, Since: read(report).Since, Stale: stale, Unassigned: true}
	}
	return Left(report, stale)
}

// Removed says that a report says that nothing of the object with a UID is at the location;
// of whatever object it is about, if uid is empty.
func Removed(report []byte, uid string) bool {
	said := read(report)
	return said.State == wire.Removed && (uid == "" || said.uid == uid)
}

// Settled says that a location has nothing left to do about an object with a UID that is to
// be gone: nothing of it is there, or what is there stays by its policy onRemove.
func Settled(report []byte, uid string) bool {
	said := read(report)
	released := said.State == wire.Orphaned && said.Reason == v1alpha1.ReasonReleased
	return said.uid == uid && (said.State == wire.Removed || released)
}

// LetGo is why a location was told that an object is no longer desired there, and by which
// Placement it was until then, as it reports; empty if it does not say.
func LetGo(report []byte) (cause wire.Cause, by key.PlacementRef) {
	said := read(report)
	return said.cause, said.letGoBy
}

// Stays says that the object is not assigned to the location but stays there, other
// than by its policy onRemove.
func (v Status) Stays() bool {
	return v.Unassigned && v.State == wire.Orphaned && v.Reason != v1alpha1.ReasonReleased
}

// Reported is the digest of what a location reports to have applied last.
func Reported(report []byte) wire.Sum { return read(report).digest }

// said is what a report says, without the object's status.
type said struct {
	Status
	uid    string
	digest wire.Sum
	// cause and letGoBy are why it is no longer desired there.
	cause   wire.Cause
	letGoBy key.PlacementRef
}

// read decodes the fields of a report that come before the status, which may be large.
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
		case "cause":
			s.cause = wire.Cause(value.Str)
		case "letGoBy":
			s.letGoBy = key.PlacementRef(value.Str)
		case "health":
			s.Health = healthOf(value.Str)
		case "healthNote":
			s.HealthNote = value.Str
		case "status":
			return false
		}
		return true
	})
	return s
}

// healthOf is the health that a report says. What an agent says that is none of them is none.
func healthOf(said string) wire.Health {
	switch h := wire.Health(said); h {
	case wire.Healthy, wire.Progressing, wire.Degraded, wire.HealthUnknown:
		return h
	default:
		return ""
	}
}
