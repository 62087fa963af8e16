package v1alpha1

// Reasons of the states of an object at a location, as reports, answers and the status
// of Placements give them. Failed can also have the target's own reason for a refusal.
const (
	// ReasonMutated, of Applied: the cluster's admission sets other values in fields that
	// the message names.
	ReasonMutated = "Mutated"
	// ReasonContested, of Applied: somebody at the location changes it again and again,
	// and it is applied again each time.
	ReasonContested = "Contested"
	// ReasonUnobserved, of Applied: the kind can't be listed, so changes are not seen.
	ReasonUnobserved = "Unobserved"
	// ReasonCreateOnly, of Applied: it was created, and is left alone since, as createOnly says.
	ReasonCreateOnly = "CreateOnly"
	// ReasonCompleted, of Applied: it ran to its end and is not created again.
	ReasonCompleted = "Completed"
	// ReasonDegraded, of a pair among the errors of a Placement: the object is applied, and
	// will not do by itself what its spec asks for.
	ReasonDegraded = "Degraded"

	// ReasonUnknownField, of Failed: the kind's schema at the location lacks a field.
	ReasonUnknownField = "UnknownField"
	// ReasonImmutable, of Failed: an immutable field has changed, and onImmutable is Fail, or
	// the object may not be deleted to be made anew.
	ReasonImmutable = "Immutable"
	// ReasonDrifted, of Failed: it is not as it was applied, and onDrift is Report.
	ReasonDrifted = "Drifted"
	// ReasonCannotRelease, of Failed: it can't be applied without a value that is released.
	ReasonCannotRelease = "CannotRelease"
	// ReasonMalformed, of Failed: what the hub sent is not an object that can be applied.
	ReasonMalformed = "Malformed"
	// ReasonNotAdmitted, of Failed: the location does not admit the object, as its
	// spec.admit says; nothing is sent to it.
	ReasonNotAdmitted = "NotAdmitted"
	// ReasonClusterScoped, of Failed: the object is in no namespace, and the location keeps
	// spaces apart by namespaces of their own (namespaces: Prefixed).
	ReasonClusterScoped = "ClusterScoped"
	// ReasonNoSuchLocation, of Failed: the object's annotation names a location that does
	// not exist; of LocationsKnown: a Placement does.
	ReasonNoSuchLocation = "NoSuchLocation"
	// ReasonTainted, of Failed: the object's annotation names a location that has a taint
	// which evicts.
	ReasonTainted = "Tainted"
	// ReasonRefused, of Failed: the target refuses it without a reason of its own.
	ReasonRefused = "Refused"

	// ReasonNoSuchResource, of Unsupported: the location does not serve the kind.
	ReasonNoSuchResource = "NoSuchResource"
	// ReasonNoSuchVersion, of Unsupported: it serves the kind, in other versions.
	ReasonNoSuchVersion = "NoSuchVersion"

	// ReasonOtherSpace, of Conflict: the location has another space's object of the
	// same kind and name, which was there first.
	ReasonOtherSpace = "OtherSpace"
	// ReasonDefinedOtherwise, of Conflict: the location has another space's definition of the
	// resource, and this one contradicts it; of Held: the object does not fit the definition of
	// its kind that the location has from another space. The message names the field.
	ReasonDefinedOtherwise = "DefinedOtherwise"
	// ReasonExists, of Conflict: somebody else's object has the name.
	ReasonExists = "Exists"

	// ReasonUpsynced, of Held and Orphaned: an entry of a Placement's upsync matches the
	// object, so it is not placed at the location, which keeps what it has.
	ReasonUpsynced = "Upsynced"
	// ReasonImpersonated, of Upsynced: the location has a ServiceAccount act for objects of
	// the space, which therefore sees nothing of what is born there.
	ReasonImpersonated = "Impersonated"
	// ReasonAsked, of Upsynced: what is asked for comes back, as far as the location says.
	ReasonAsked = "Asked"
	// ReasonUnread, of Upsynced: the location's agent may not read kinds that are asked for, or
	// there are none.
	ReasonUnread = "Unread"
	// ReasonLimitExceeded, of Upsynced: more matches than the location's limits allow.
	ReasonLimitExceeded = "LimitExceeded"
	// ReasonSuspended, of Held: all Placements that place the object there are suspended.
	ReasonSuspended = "Suspended"
	// ReasonTooManyRules, of Held: the object's Customizers have more paths than can be
	// sent with it.
	ReasonTooManyRules = "TooManyRules"
	// ReasonNotRendered, of Held: the object can't be rendered for the location.
	ReasonNotRendered = "NotRendered"
	// ReasonRuleFailed, of Held: a rule of a Customizer fails for the object at the location.
	ReasonRuleFailed = "RuleFailed"
	// ReasonTemplateFailed, of Held: a template in the object can't be expanded for the location.
	ReasonTemplateFailed = "TemplateFailed"
	// ReasonCannotImpersonate, of Held: the location admits the object with the rights of a
	// ServiceAccount, for which its agent is too old.
	ReasonCannotImpersonate = "CannotImpersonate"
	// ReasonNothingToKeep, of Held: the location should keep what it has, but has nothing.
	ReasonNothingToKeep = "NothingToKeep"

	// ReasonTerminating, of Waiting and Removing: what is there is being deleted.
	ReasonTerminating = "Terminating"
	// ReasonNamespaceTerminating, of Waiting: its namespace is being deleted.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	// ReasonWaitsForNamespace, of Waiting: its Namespace is placed at the location, and is not there yet.
	ReasonWaitsForNamespace = "WaitsForNamespace"
	// ReasonRecreating, of Waiting: it is deleted to be created again, as onImmutable says.
	ReasonRecreating = "Recreating"
	// ReasonTargetUnavailable, of Waiting: the location's API server does not answer.
	ReasonTargetUnavailable = "TargetUnavailable"
	// ReasonAnnounced, of Waiting: it is made once the hub has noted that the location is about
	// to have it, since its deletion waits until that is gone (waitForRemoval).
	ReasonAnnounced = "Announced"
	// ReasonHalted, of Waiting and Removing: a change waits, since the location's agent changes nothing
	// now, as while the location is paused.
	ReasonHalted = "Halted"
	// ReasonLineageUnproven, of Waiting: the object there was written by a log that this
	// hub's is not known to continue.
	ReasonLineageUnproven = "LineageUnproven"

	// ReasonPruneGuard, of Removing, of Waiting for what is to be made anew, and of the
	// condition Synced: more would be removed at once than the location allows; it waits for
	// a confirmation.
	ReasonPruneGuard = "PruneGuard"
	// ReasonNotEmpty, of Removing: what is in it has to go first.
	ReasonNotEmpty = "NotEmpty"
	// ReasonWaitsForWebhooks, of Removing: webhooks and API services that leave, too, go first.
	ReasonWaitsForWebhooks = "WaitsForWebhooks"
	// ReasonWaitsForCustomResources, of Removing: custom resources go first.
	ReasonWaitsForCustomResources = "WaitsForCustomResources"
	// ReasonWaitsForWorkloads, of Removing: workloads go first.
	ReasonWaitsForWorkloads = "WaitsForWorkloads"
	// ReasonWaitsForClusterRoles, of Removing: the ClusterRoles that aggregate it go first.
	ReasonWaitsForClusterRoles = "WaitsForClusterRoles"

	// ReasonInUse, of Orphaned: others have something in it.
	ReasonInUse = "InUse"
	// ReasonReleased, of Orphaned: it stays, as onRemove says, and is no longer managed.
	ReasonReleased = "Released"
)

// Reasons of conditions and refusals.
const (
	// ReasonJoined, of the condition Enrolled: an agent has joined and has a credential.
	ReasonJoined = "Joined"
	// ReasonClusterUnavailable, of ClusterAvailable being False and of Synced being Unknown: the agent of a
	// location does not see its cluster. The API server does not answer, or has lost its etcd, or the agent is halted
	// for a reason that keeps it from observing the cluster.
	ReasonClusterUnavailable = "ClusterUnavailable"
	// ReasonStoreNotWritable, of Synced of a Location being False: the agent can't write its data directory.
	ReasonStoreNotWritable = "StoreNotWritable"
	// ReasonStale, of the condition Synced of a Placement being Unknown: some of its objects are at
	// locations that can't be seen now.
	ReasonStale = "Stale"
	// ReasonRevoked, of Enrolled being False: somebody has revoked all that the agent was
	// given. It takes another join token to go on.
	ReasonRevoked = "Revoked"
	// ReasonCredentialReused, of Enrolled being False: a credential that was renewed was
	// used again, so two agents have it, and all that the agent was given is revoked.
	ReasonCredentialReused = "CredentialReused"
	// ReasonLogFull is the reason of writes that are refused, and of the condition Ready of
	// spaces, while the hub's log has no room.
	ReasonLogFull = "LogFull"
	// ReasonProtocol is the reason of the condition Compatible when the hub itself has set
	// it. With any other reason an operator has set it, and the hub leaves it alone.
	ReasonProtocol = "Protocol"
)

// Reasons why nobody says how an object is at a location, see "orrery diff". Those of the
// location's cluster are as reports have them.
const (
	// ReasonNotPlaced: the object is not assigned to the location, and the location has
	// nothing of it.
	ReasonNotPlaced = "NotPlaced"
	// ReasonOtherShards: an agent is for a shard of another number of shards than the
	// location's spec.shards.
	ReasonOtherShards = "OtherShards"
	// ReasonNotConnected: the location's agent has no session with this hub.
	ReasonNotConnected = "NotConnected"
	// ReasonAgentTooOld: the location's agent does not know the question; of Upsynced: it does
	// not report what is born there.
	ReasonAgentTooOld = "AgentTooOld"
	// ReasonNoAnswer: the location's agent has not answered in time.
	ReasonNoAnswer = "NoAnswer"
	// ReasonBadAnswer: what the location's agent has answered is no answer.
	ReasonBadAnswer = "BadAnswer"
	// ReasonTooLarge: what is there is larger than an answer may be.
	ReasonTooLarge = "TooLarge"
)

// Reasons of the condition Complete of a Summary, with ReasonTooLarge.
const (
	// ReasonMixedTypes: a group has values that can't be combined with each other.
	ReasonMixedTypes = "MixedTypes"
)
