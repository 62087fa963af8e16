// Package objectstate computes the state of one object at one location. Counts, query results,
// columns, the status of Placements and Locations, and the desired objects of agents all use this
// rule.
//
// A state is a function of the object's row, its assignment, the report of the location, and
// whether reports are stale. The package must never use anything else.
package objectstate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Pending is the state of an object whose current version the location has not yet reported.
const Pending wire.State = "Pending"

// Digest returns the digest of an entry as rendered for a class of locations, or an error if it
// cannot be rendered. It must be a pure function.
type Digest func(*table.Entry, *placement.Class) (wire.Sum, error)

// Desired is the desired state of an object at a location: the digest of the rendered object,
// unless it is held or another space's object has the identity.
type Desired struct {
	Digest wire.Sum
	Policy wire.Policy
	// Held is the reason why the object must not change there; HeldFor is the reason in one word.
	Held, HeldFor string
	// Owner is the path of another space's object that has the identity at the location.
	Owner string
	// FailedRule is the rule because of which it is held, if any.
	FailedRule FailedRule
}

// FailedRule is a rule of a Customizer or KindRules that failed; it is empty if there is none.
type FailedRule struct {
	// Customizer is the name of the Customizer; Rule is the index of its rule.
	Customizer string
	Rule       int
	// KindRules is the KindRules whose expression failed.
	KindRules key.Object
}

// failure is an error of a Digest with a reason in one word and the failed rule.
type failure interface {
	error
	Reason() string
	FailedRule() (customizer string, rule int)
}

// DesiredOf returns the desired state of a row's object at a location to which it is assigned.
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

// Status is the state of an object at a location.
type Status struct {
	State           wire.State
	Reason, Message string
	// Since is when the state and reason last changed, by the report (RFC 3339); empty if the state
	// is not from a report.
	Since string
	// Stale reports that the status is that of a last report which may be old, see IsStale.
	Stale bool
	// Unassigned reports whether the object is not assigned to the location: the location removes
	// it, or reports why it stays.
	Unassigned bool
	// FailedRule is the rule because of which the object is held, or because of which its health is
	// not known, if any.
	FailedRule FailedRule
	// Health is the health of the object at the location, by the report and KindRules; HealthNote is the reason
	// why it is not Healthy, with the diagnosis if there is one. Both are empty if the state is not from a report, or the report has no
	// health.
	Health     wire.Health
	HealthNote string
}

// Healthy reports whether the object is applied and healthy.
func (v Status) Healthy() bool { return v.State == wire.Applied && v.Health == wire.Healthy }

// Degraded reports whether the object is applied and will not become healthy by itself.
func (v Status) Degraded() bool { return v.State == wire.Applied && v.Health == wire.Degraded }

// Failing reports whether the object differs from the desired state at the location, and will until
// a user or operator changes something.
func (v Status) Failing() bool {
	switch v.State {
	case wire.Failed, wire.Unsupported, wire.InConflict:
		return true
	case wire.Held:
		return slices.Contains([]string{v1alpha1.ReasonNotRendered, v1alpha1.ReasonRuleFailed, v1alpha1.ReasonTemplateFailed, v1alpha1.ReasonDefinedOtherwise}, v.Reason)
	}
	return false
}

// Mutated reports whether the object is applied, but with other values that the cluster's admission
// sets.
func (v Status) Mutated() bool { return v.State == wire.Applied && v.Reason == v1alpha1.ReasonMutated }

// Assigned returns the state of an object that is assigned to a location. report is the stored
// report of the location, or nil.
func Assigned(digest Digest, row *table.Row, p placement.Place, report []byte, stale bool) Status {
	d := DesiredOf(digest, row, p)
	switch {
	case p.Leaves:
	case d.Owner != "":
		v := Status{State: wire.InConflict, Reason: v1alpha1.ReasonOtherSpace, Message: wire.OtherSpace, Stale: stale}
		if reported := contradiction(digest, row, p); reported != "" {
			v.Reason, v.Message = v1alpha1.ReasonDefinedOtherwise, reported
		}
		return v
	case d.Held != "":
		return Status{State: wire.Held, Reason: d.HeldFor, Message: d.Held, Stale: stale, FailedRule: d.FailedRule}
	}
	reported := read(report)
	if p.Leaves {
		return leaving(report, row.Meta.UID, stale)
	}
	if reported.uid != row.Meta.UID || reported.State == wire.Applied && reported.digest != d.Digest {
		return Status{State: Pending, Stale: stale} // the report describes an earlier object of the name, or an earlier desired state
	}
	reported.Stale = stale
	return withHealthRules(reported.Status, p.Health, row, report)
}

// withHealthRules returns the status that a report gives a row's object with the health that
// KindRules compute. They only make the health worse. A rule that fails makes it Unknown, unless it
// is worse.
func withHealthRules(v Status, rules *placement.HealthRules, row *table.Row, report []byte) Status {
	if rules == nil {
		return v
	}
	in := placement.HealthInput{Object: row.Value, Status: []byte(gjson.GetBytes(report, "status").Raw)}
	if v.State != wire.Applied && len(in.Status) == 0 {
		return v // the location may not have the object
	}
	if size := gjson.GetBytes(report, "statusBytes").Int(); size > 0 {
		return v.failed(rules.Rules[0].KindRules, fmt.Sprintf("the location leaves out the status, which has %d bytes", size))
	}
	for _, rule := range rules.Rules {
		health, message, err := rule.Health(in)
		if health != "" {
			v = v.lowered(health, message, rule.KindRules)
		}
		if err != nil {
			v = v.failed(rule.KindRules, err.Error())
		}
	}
	if rules.Omitted > 0 {
		last := rules.Rules[len(rules.Rules)-1].KindRules
		v = v.failed(last, fmt.Sprintf("%d more apply to the kind than the %d that are evaluated", rules.Omitted, placement.MaxHealthRules))
	}
	return v
}

// lowered returns the status with a health that a KindRules computes, unless the present one is
// worse.
func (v Status) lowered(health wire.Health, message string, kindRules key.Object) Status {
	if health == wire.Healthy || health.Severity() < v.Health.Severity() {
		return v
	}
	if message == "" {
		message = "it is " + string(health)
	}
	message += fmt.Sprintf(" (KindRules %s)", kindRules.Name)
	if health == v.Health {
		message = wire.WithDiagnosis(message, v.HealthNote)
	}
	v.Health, v.HealthNote = health, wire.Brief(message)
	return v
}

// failed returns the status with the failure of the rule of a KindRules.
func (v Status) failed(kindRules key.Object, why string) Status {
	message := fmt.Sprintf("KindRules %s fails: %s", kindRules.Name, why)
	if v.FailedRule == (FailedRule{}) {
		v.FailedRule.KindRules = kindRules
	}
	if wire.HealthUnknown.Severity() > v.Health.Severity() {
		v.Health, v.HealthNote = wire.HealthUnknown, ""
	}
	v.HealthNote = wire.Brief(wire.WithDiagnosis(v.HealthNote, message))
	return v
}

// contradiction returns how a row's object contradicts another space's definition that the location
// has instead; empty if there is none or it does not.
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

// Refused returns the state of an object that policies place at a location that does not admit it,
// with the reason in one word. It is not assigned there. Left returns the state of an object that
// the location still has.
func Refused(reason string) Status {
	message := "the location does not admit it; orrery why says by which part of its spec.admit"
	if reason == v1alpha1.ReasonClusterScoped {
		message = "the location keeps spaces apart by namespaces of their own (namespaces: Prefixed), and the object is in none"
	}
	return Status{State: wire.Failed, Reason: reason, Message: message}
}

// UnknownLocation returns the state of an object whose annotation names a location that it does not
// get, with the reason in one word.
func UnknownLocation(reason string) Status {
	message := "no location with this name accepts objects of this space"
	if reason == v1alpha1.ReasonTainted {
		message = "the location has a taint that evicts, see orrery location describe"
	}
	return Status{State: wire.Failed, Reason: reason, Message: message}
}

// Left returns the state of an object that a location reports, or whose removal it must confirm,
// though the object is not assigned to it. report is nil if there is none.
func Left(report []byte, stale bool) Status {
	reported := read(report).Status
	switch {
	case report == nil:
		reported = Status{State: wire.Removing, Message: "the location has yet to confirm that the object is gone"}
	case reported.State == wire.Held && reported.Reason == v1alpha1.ReasonUpsynced:
		reported.State, reported.Message = wire.Orphaned, "it stays, since a Placement's upsync matches it; its agent is too old to let go of it"
	case reported.State != wire.Removing && reported.State != wire.Orphaned:
		reported = Status{State: wire.Removing, Message: "the location has yet to remove it"}
	}
	reported.Stale, reported.Unassigned = stale, true
	return reported
}

// leaving returns the state of an object that is being deleted, at a location that must confirm its
// removal.
func leaving(report []byte, uid string, stale bool) Status {
	if Removed(report, uid) {
		return Status{State: wire.Removed, Since: read(report).Since, Stale: stale, Unassigned: true}
	}
	return Left(report, stale)
}

// Removed reports whether a report confirms that the object with a UID is not at the location; if
// uid is empty, any object of the name.
func Removed(report []byte, uid string) bool {
	reported := read(report)
	return reported.State == wire.Removed && (uid == "" || reported.uid == uid)
}

// IsFinished reports whether a location has nothing more to do about the removal of an object with
// a UID: the object is gone, or it stays by its policy onRemove.
func IsFinished(report []byte, uid string) bool {
	reported := read(report)
	released := reported.State == wire.Orphaned && reported.Reason == v1alpha1.ReasonReleased
	return reported.uid == uid && (reported.State == wire.Removed || released)
}

// LetGo returns why an object is no longer desired at a location, and the Placement that had
// assigned it, by its report; empty if the report does not state it.
func LetGo(report []byte) (cause wire.Cause, placement key.PlacementRef) {
	reported := read(report)
	return reported.cause, reported.letGoBy
}

// Stays reports whether the object is not assigned to the location but stays there, for another
// reason than its policy onRemove.
func (v Status) Stays() bool {
	return v.Unassigned && v.State == wire.Orphaned && v.Reason != v1alpha1.ReasonReleased
}

// Reported returns the digest of the object that a location reports as applied last.
func Reported(report []byte) wire.Sum { return read(report).digest }

// reported holds the fields of a report, except the object's status.
type reported struct {
	Status
	uid    string
	digest wire.Sum
	// cause and letGoBy are the reason why it is no longer desired there, and the Placement.
	cause   wire.Cause
	letGoBy key.PlacementRef
}

// read decodes the fields of a report that come before the status, which may be large.
func read(report []byte) (s reported) {
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
		case "diagnosis":
			s.HealthNote = wire.WithDiagnosis(s.HealthNote, value.Str)
		case "status":
			return false
		}
		return true
	})
	return s
}

// healthOf returns the health in a report; empty if it is not valid.
func healthOf(reported string) wire.Health {
	switch h := wire.Health(reported); h {
	case wire.Healthy, wire.Progressing, wire.Degraded, wire.HealthUnknown:
		return h
	default:
		return ""
	}
}
