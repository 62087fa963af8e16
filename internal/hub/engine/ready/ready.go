// Package ready computes the condition Ready of Orrery's kinds from the rest of an object, as tools
// such as kstatus, Flux and kubectl wait read it.
//
// Ready is computed at each read and never stored. So it costs no write, an object without a status
// has it, too, and it agrees with the other conditions after a hub of another version wrote them.
// The package must never read the table, the log or a clock.
package ready

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/protocol/key"
)

// Placement returns the condition Ready of a Placement of a generation. It is True if all its other
// conditions are True for this generation, and each assigned object is healthy at each location.
func Placement(generation int64, s *v1alpha1.PlacementStatus) metav1.Condition {
	required := []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionSynced}
	if s.ObservedGeneration != generation {
		return notObserved(generation)
	}
	for _, c := range s.Conditions { // the others are present only where they concern the Placement
		if c.Type != v1alpha1.ConditionAccepted && c.Type != v1alpha1.ConditionSynced && c.Type != v1alpha1.ConditionReady {
			required = append(required, c.Type)
		}
	}
	if c, isBlocked := blocker(generation, s.Conditions, required...); isBlocked {
		return c
	}
	switch {
	case s.Stale > 0: // Synced may be older than the counts
		return condition(metav1.ConditionUnknown, v1alpha1.ReasonStale, fmt.Sprintf("%d of %d assigned objects are at locations that do not report", s.Stale, s.Assigned))
	case s.Healthy < s.Assigned:
		return condition(metav1.ConditionFalse, v1alpha1.ReasonNotHealthy,
			fmt.Sprintf("%d of %d assigned objects are healthy: see status.errors, and orrery status for the others", s.Healthy, s.Assigned))
	}
	if synced := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionSynced); s.Assigned == 0 { // it only has upsync
		return condition(metav1.ConditionTrue, v1alpha1.ReasonReady, synced.Message)
	}
	return condition(metav1.ConditionTrue, v1alpha1.ReasonReady, fmt.Sprintf("all %d assigned objects are applied and healthy", s.Assigned))
}

// Location returns the condition Ready of a Location of a generation. It is True if the location can
// take objects: an agent has joined, the agents of all shards hold a session and can work with the
// hub, the API server of the cluster answers, and nothing keeps the agents from changes and removals. If the version
// of an agent does not report whether the cluster answers, the other requirements decide.
func Location(name key.Location, generation int64, mapping v1alpha1.Mapping, s *v1alpha1.LocationStatus) metav1.Condition {
	if meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionEnrolled) == nil {
		return condition(metav1.ConditionFalse, "NotEnrolled", "no agent has joined: run orrery location token "+string(name))
	}
	if connected := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionConnected); connected == nil || connected.ObservedGeneration != generation {
		return notObserved(generation)
	}
	// The hub evaluates Connected at each change of the Location. The others stay without a session.
	required := []string{v1alpha1.ConditionEnrolled, v1alpha1.ConditionConnected, v1alpha1.ConditionCompatible}
	available := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionClusterAvailable)
	isReported := available == nil || available.Status != metav1.ConditionUnknown || available.Reason != v1alpha1.ReasonAgentTooOld
	if isReported {
		required = append(required, v1alpha1.ConditionClusterAvailable)
	}
	if c, isBlocked := blocker(anyGeneration, s.Conditions, required...); isBlocked {
		return c
	}
	if mapping == v1alpha1.MappingPaused {
		return condition(metav1.ConditionFalse, v1alpha1.ReasonPaused, "spec.mapping is Paused, so the agent changes nothing")
	}
	if c := objectstate.SyncedLocation(name, s, v1alpha1.Counts{}); c.Status != metav1.ConditionTrue {
		return condition(c.Status, c.Reason, c.Message)
	}
	if !isReported {
		return condition(metav1.ConditionTrue, v1alpha1.ReasonReady, "the agent is connected; whether the cluster answers it is not known: "+available.Message)
	}
	return condition(metav1.ConditionTrue, v1alpha1.ReasonReady, "the agent is connected, and the cluster answers it")
}

// Customizer returns the condition Ready of a Customizer of a generation. It is True if its spec is
// valid, and no rule fails for any object.
func Customizer(generation int64, s *v1alpha1.CustomizerStatus) metav1.Condition {
	if c, isBlocked := blocker(generation, s.Conditions, v1alpha1.ConditionAccepted); isBlocked {
		return c
	}
	if n := len(s.Errors); n > 0 {
		e := s.Errors[0]
		return condition(metav1.ConditionFalse, v1alpha1.ReasonRuleFailed,
			fmt.Sprintf("rule %d fails for %s at location %q, and there may be others: see status.errors", e.Rule, e.Object, e.Location))
	}
	return condition(metav1.ConditionTrue, v1alpha1.ReasonReady, "all rules are valid, and none fails")
}

// KindRules returns the condition Ready of a KindRules of a generation. It is True if its spec is
// valid, and no expression fails for any object.
func KindRules(generation int64, s *v1alpha1.KindRulesStatus) metav1.Condition {
	if c, isBlocked := blocker(generation, s.Conditions, v1alpha1.ConditionAccepted); isBlocked {
		return c
	}
	if n := len(s.Errors); n > 0 {
		e := s.Errors[0]
		return condition(metav1.ConditionFalse, v1alpha1.ReasonRuleFailed,
			fmt.Sprintf("an expression fails for %s at location %q, and there may be others: see status.errors", e.Object, e.Location))
	}
	return condition(metav1.ConditionTrue, v1alpha1.ReasonReady, "all expressions are valid, and none fails")
}

// Summary returns the condition Ready of a Summary of a generation. It is True if the rows have all
// objects, apart from rows beyond the limit, and no report is stale.
func Summary(generation int64, s *v1alpha1.SummaryStatus) metav1.Condition {
	if s.ObservedGeneration != generation {
		return notObserved(generation)
	}
	if c, isBlocked := blocker(generation, s.Conditions, v1alpha1.ConditionAccepted, v1alpha1.ConditionComplete); isBlocked {
		return c
	}
	switch {
	case s.Failed > 0:
		return condition(metav1.ConditionFalse, v1alpha1.ReasonExpressionFailed,
			fmt.Sprintf("%d objects are missing in the rows, since an expression fails for them: see status.errors", s.Failed))
	case s.Stale > 0:
		return condition(metav1.ConditionUnknown, v1alpha1.ReasonStale, fmt.Sprintf("%d of %d objects are at locations that do not report", s.Stale, s.Counted))
	case s.AsOf != nil:
		return condition(metav1.ConditionUnknown, v1alpha1.ReasonStale, "changes after status.asOf are not all counted yet")
	}
	return condition(metav1.ConditionTrue, v1alpha1.ReasonReady, "the rows are complete and up to date")
}

// Terminating returns the condition Ready of a Space that is being deleted and has the finalizers.
func Terminating(finalizers []string) metav1.Condition {
	others := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == v1alpha1.ContentFinalizer })
	var blocking []string
	if len(others) < len(finalizers) {
		blocking = append(blocking, "the hub has yet to delete the rest of its objects")
	}
	if len(others) > 0 {
		blocking = append(blocking, "other controllers have yet to remove their finalizers: "+strings.Join(others, ", "))
	}
	message := "the space is being deleted"
	if len(blocking) > 0 {
		message += ": " + strings.Join(blocking, ", and ")
	}
	return condition(metav1.ConditionFalse, v1alpha1.ReasonTerminating, message)
}

// Served returns the condition Ready of a Space, APIExport, APIBinding or APIExportView of a
// generation: the one that the hub stored, if it is about this generation.
func Served(generation int64, conditions []metav1.Condition) metav1.Condition {
	stored := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if stored == nil || stored.ObservedGeneration != generation {
		return notObserved(generation)
	}
	return *stored
}

// Below returns the condition Ready of an object that is meant for a lower hub: the one that the
// lower hub returned.
func Below(conditions []metav1.Condition) metav1.Condition {
	if returned := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); returned != nil {
		return *returned
	}
	return condition(metav1.ConditionUnknown, v1alpha1.ReasonNotObserved, "the lower hub that acts on this object has returned no condition Ready")
}

// anyGeneration is a generation of which blocker accepts all conditions.
const anyGeneration = -1

// blocker returns the condition Ready of an object whose required conditions are not all True for a
// generation. A condition that is False counts more than one that is unknown.
func blocker(generation int64, all []metav1.Condition, required ...string) (ready metav1.Condition, isBlocked bool) {
	for _, name := range required {
		c := meta.FindStatusCondition(all, name)
		switch {
		case c == nil:
			c = &metav1.Condition{Type: name, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNotObserved, Message: "the hub does not know it yet"}
		case generation != anyGeneration && c.ObservedGeneration != generation:
			c = new(notObserved(generation))
			c.Type = name
		}
		if c.Status == metav1.ConditionTrue || isBlocked && c.Status != metav1.ConditionFalse {
			continue
		}
		ready, isBlocked = condition(c.Status, c.Reason, fmt.Sprintf("%s is %s: %s", name, c.Status, c.Message)), true
		if c.Status == metav1.ConditionFalse {
			return ready, true
		}
	}
	return ready, isBlocked
}

func notObserved(generation int64) metav1.Condition {
	return condition(metav1.ConditionUnknown, v1alpha1.ReasonNotObserved, fmt.Sprintf("the hub has not evaluated generation %d yet", generation))
}

func condition(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message}
}
