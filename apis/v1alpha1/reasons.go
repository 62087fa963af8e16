package v1alpha1

// Reasons of the state of an object at a location that the hub gives by itself.
// Agents report others, see the table of states in docs/operations.md.
const (
	// ReasonOtherSpace, of Conflict: the location has another space's object of the
	// same kind and name, which was there first.
	ReasonOtherSpace = "OtherSpace"
	// ReasonSuspended, of Held: all Placements that place the object there are suspended.
	ReasonSuspended = "Suspended"
	// ReasonTooManyRules, of Held: the object's Customizers have more paths than can go
	// with it.
	ReasonTooManyRules = "TooManyRules"
	// ReasonNotRendered, of Held: what the location is to get can't be made of the object.
	ReasonNotRendered = "NotRendered"
)

// ReasonLogFull is the reason of writes that are refused, and of the condition Ready of
// spaces, while the hub's log has no room.
const ReasonLogFull = "LogFull"

// ReasonPruneGuard is why something is not Synced while removals wait for a confirmation.
const ReasonPruneGuard = "PruneGuard"

// ReasonProtocol is the reason of the condition Compatible when the hub itself has set
// it. With any other it is an operator's, and stays.
const ReasonProtocol = "Protocol"
