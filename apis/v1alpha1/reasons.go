package v1alpha1

// Reasons of the states of an object at a location, in reports, responses and the status of
// Placements. Failed can also have the reason with which the location's API server refused it.
const (
	// ReasonMutated, of Applied: admission in the cluster changes fields that the message lists.
	ReasonMutated = "Mutated"
	// ReasonContested, of Applied: another client at the location repeatedly changes the object,
	// and the agent applies it again each time.
	ReasonContested = "Contested"
	// ReasonUnobserved, of Applied: the kind can't be listed, so the agent does not see changes.
	ReasonUnobserved = "Unobserved"
	// ReasonCreateOnly, of Applied: the object was created and is not changed, because of
	// createOnly.
	ReasonCreateOnly = "CreateOnly"
	// ReasonCompleted, of Applied: the object ran to completion and is not created again.
	ReasonCompleted = "Completed"
	// ReasonDegraded, of a pair among the errors of a Placement: the object is applied, but will
	// not reach the state in its spec without a change.
	ReasonDegraded = "Degraded"

	// ReasonUnknownField, of Failed: the schema of the kind at the location lacks a field.
	ReasonUnknownField = "UnknownField"
	// ReasonImmutable, of Failed: an immutable field has changed, and onImmutable is Fail, or the
	// object may not be deleted and recreated.
	ReasonImmutable = "Immutable"
	// ReasonDrifted, of Failed: the object differs from its applied state, and onDrift is Report.
	ReasonDrifted = "Drifted"
	// ReasonCannotRelease, of Failed: the object can't be applied without a released value.
	ReasonCannotRelease = "CannotRelease"
	// ReasonMalformed, of Failed: the hub sent an object that can't be applied.
	ReasonMalformed = "Malformed"
	// ReasonNotAdmitted, of Failed: spec.admit of the location does not admit the object, so the
	// hub does not send it.
	ReasonNotAdmitted = "NotAdmitted"
	// ReasonClusterScoped, of Failed: the object is cluster-scoped, and the location places each
	// space in namespaces of its own (namespaces: Prefixed).
	ReasonClusterScoped = "ClusterScoped"
	// ReasonNoSuchLocation, of Failed: the object's annotation names a location that does not
	// exist. Of LocationsKnown: a Placement does.
	ReasonNoSuchLocation = "NoSuchLocation"
	// ReasonTainted, of Failed: the object's annotation names a location that has a taint with
	// effect Evict.
	ReasonTainted = "Tainted"
	// ReasonRefused, of Failed: the location's API server refuses the object without a reason.
	ReasonRefused = "Refused"

	// ReasonNoSuchResource, of Unsupported: the location does not serve the kind.
	ReasonNoSuchResource = "NoSuchResource"
	// ReasonNoSuchVersion, of Unsupported: the location serves the kind only in other versions.
	ReasonNoSuchVersion = "NoSuchVersion"

	// ReasonOtherSpace, of Conflict: the location already has an object of the same kind and name
	// from another space.
	ReasonOtherSpace = "OtherSpace"
	// ReasonDefinedOtherwise, of Conflict: the location has a definition of the resource from
	// another space, and this one contradicts it. Of Held: the object does not match the definition
	// of its kind that the location has from another space. The message names the field.
	ReasonDefinedOtherwise = "DefinedOtherwise"
	// ReasonExists, of Conflict: an object of the name exists that Orrery did not create.
	ReasonExists = "Exists"

	// ReasonUpsynced, of Held and Orphaned: an entry of a Placement's upsync matches the object. It
	// is not placed at the location, which keeps its present object.
	ReasonUpsynced = "Upsynced"
	// ReasonImpersonated, of Upsynced: the agent of the location impersonates a ServiceAccount for
	// the space. The location therefore reports no upsynced objects to this space.
	ReasonImpersonated = "Impersonated"
	// ReasonAsked, of Upsynced: the requested objects are reported, as far as the location knows. Of Synced: the
	// Placement only has upsync, and all its locations report the requested objects.
	ReasonAsked = "Asked"
	// ReasonUnread, of Upsynced: requested kinds do not exist, or the location's agent may not read
	// them.
	ReasonUnread = "Unread"
	// ReasonNotReported, of Synced being Unknown: the Placement only has upsync, and a location does not report all
	// requested objects, of this space or of another one.
	ReasonNotReported = "NotReported"
	// ReasonLimitExceeded, of Upsynced: more objects match than the location's limits allow.
	ReasonLimitExceeded = "LimitExceeded"
	// ReasonSuspended, of Held: all Placements that assign the object there are suspended.
	ReasonSuspended = "Suspended"
	// ReasonTooManyRules, of Held: the object's Customizers have more paths than the protocol can
	// send with it.
	ReasonTooManyRules = "TooManyRules"
	// ReasonNotRendered, of Held: the object can't be rendered for the location.
	ReasonNotRendered = "NotRendered"
	// ReasonRuleFailed, of Held: a rule of a Customizer fails for the object at the location.
	ReasonRuleFailed = "RuleFailed"
	// ReasonTemplateFailed, of Held: a template in the object can't be expanded for the location.
	ReasonTemplateFailed = "TemplateFailed"
	// ReasonCannotImpersonate, of Held: the location admits the object with the rights of a
	// ServiceAccount, but its agent is too old to impersonate one.
	ReasonCannotImpersonate = "CannotImpersonate"
	// ReasonNoObjects, of Synced: the Placement selects no object.
	ReasonNoObjects = "NoObjects"
	// ReasonNoLocations, of Synced: the Placement selects no location.
	ReasonNoLocations = "NoLocations"
	// ReasonNothingToKeep, of Held: the location should keep its present object, but has none.
	ReasonNothingToKeep = "NothingToKeep"

	// ReasonTerminating, of Waiting and Removing: the present object is being deleted. Of Ready of a Space: the space
	// is being deleted.
	ReasonTerminating = "Terminating"
	// ReasonNamespaceTerminating, of Waiting: the namespace of the object is being deleted.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	// ReasonWaitsForNamespace, of Waiting: the Namespace of the object is placed at the location and does
	// not exist there yet.
	ReasonWaitsForNamespace = "WaitsForNamespace"
	// ReasonRecreating, of Waiting: the object is being deleted, to be recreated because of
	// onImmutable.
	ReasonRecreating = "Recreating"
	// ReasonTargetUnavailable, of Waiting: the location's API server does not answer.
	ReasonTargetUnavailable = "TargetUnavailable"
	// ReasonAnnounced, of Waiting: the agent creates the object after the hub has recorded its
	// location. Deletion of the object then waits for this location (waitForRemoval).
	ReasonAnnounced = "Announced"
	// ReasonHalted, of Waiting and Removing: a change is pending while the location's agent changes
	// nothing, for example while the location is paused.
	ReasonHalted = "Halted"
	// ReasonLogUnproven, of Waiting: the present object was written from another log, and the
	// hub's log is not known to continue that log.
	ReasonLogUnproven = "LineageUnproven"

	// ReasonPruneGuard, of Removing, of Waiting for an object to recreate, and of the condition
	// Synced: the removals exceed the limit of the location, and wait for a confirmation.
	ReasonPruneGuard = "PruneGuard"
	// ReasonNotEmpty, of Removing: the objects in it have to be removed first.
	ReasonNotEmpty = "NotEmpty"
	// ReasonWaitsForWebhooks, of Removing: webhooks and API services that are also to be removed
	// have to be removed first.
	ReasonWaitsForWebhooks = "WaitsForWebhooks"
	// ReasonWaitsForCustomResources, of Removing: custom resources go first.
	ReasonWaitsForCustomResources = "WaitsForCustomResources"
	// ReasonWaitsForWorkloads, of Removing: workloads go first.
	ReasonWaitsForWorkloads = "WaitsForWorkloads"
	// ReasonWaitsForClusterRoles, of Removing: the ClusterRoles that aggregate it go first.
	ReasonWaitsForClusterRoles = "WaitsForClusterRoles"

	// ReasonInUse, of Orphaned: objects of other owners exist in it.
	ReasonInUse = "InUse"
	// ReasonReleased, of Orphaned: the object stays because of onRemove, and is no longer managed.
	ReasonReleased = "Released"
)

// Reasons of conditions and refusals.
const (
	// ReasonJoined, of the condition Enrolled: an agent has joined and has a credential.
	ReasonJoined = "Joined"
	// ReasonClusterUnavailable, of ClusterAvailable being False and Synced being Unknown: the agent of a
	// location does not observe its cluster. The API server does not answer, or has lost its etcd, or the
	// agent is halted for a reason that prevents observation.
	ReasonClusterUnavailable = "ClusterUnavailable"
	// ReasonStoreNotWritable, of Synced of a Location being False: the agent can't write its data directory.
	ReasonStoreNotWritable = "StoreNotWritable"
	// ReasonStale, of Synced of a Placement being Unknown: some of its objects are at locations
	// that currently do not report.
	ReasonStale = "Stale"
	// ReasonRemoving, of Synced of a Placement being False: everything assigned is applied, and objects are
	// still at locations to which they are no longer assigned.
	ReasonRemoving = "Removing"
	// ReasonRevoked, of Enrolled being False: a user has revoked all credentials of the agent. The
	// agent needs a new join token.
	ReasonRevoked = "Revoked"
	// ReasonCredentialReused, of Enrolled being False: a credential was used after its renewal, so
	// two agents have it. The hub has revoked all credentials of the agent.
	ReasonCredentialReused = "CredentialReused"
	// ReasonLogFull is the reason of refused writes, and of the condition Ready of spaces, while
	// the hub's log is full.
	ReasonLogFull = "LogFull"
	// ReasonReady, of Ready: nothing is missing.
	ReasonReady = "Ready"
	// ReasonNotObserved, of Ready being Unknown: the hub has not yet evaluated this generation.
	ReasonNotObserved = "NotObserved"
	// ReasonNotHealthy, of Ready of a Placement: all objects are applied, and some are not healthy.
	ReasonNotHealthy = "NotHealthy"
	// ReasonExpressionFailed, of Ready of a Summary: objects are missing in the rows.
	ReasonExpressionFailed = "ExpressionFailed"
	// ReasonPaused, of Ready of a Location: spec.mapping is Paused.
	ReasonPaused = "Paused"
	// ReasonProtocol is the reason of the condition Compatible when the hub has set it. A condition
	// with any other reason was set by an administrator, and the hub does not change it.
	ReasonProtocol = "Protocol"
)

// Reasons why "orrery diff" can't show an object at a location. Reasons that come from the
// location's cluster are those of reports.
const (
	// ReasonNotPlaced: the object is not assigned to the location, and the location does not have
	// it.
	ReasonNotPlaced = "NotPlaced"
	// ReasonOtherShards: the agent was started with another number of shards than the location's
	// spec.shards.
	ReasonOtherShards = "OtherShards"
	// ReasonNotConnected: the location's agent has no session with this hub.
	ReasonNotConnected = "NotConnected"
	// ReasonAgentTooOld: the location's agent does not support the request. Of Upsynced: it does
	// not report upsynced objects. Of ClusterAvailable being Unknown: it does not report whether its cluster answers.
	ReasonAgentTooOld = "AgentTooOld"
	// ReasonNoAnswer: the location's agent has not responded in time.
	ReasonNoAnswer = "NoAnswer"
	// ReasonBadAnswer: the response of the location's agent is invalid.
	ReasonBadAnswer = "BadAnswer"
	// ReasonTooLarge: the object at the location is larger than the maximum response.
	ReasonTooLarge = "TooLarge"
)

// Reasons of the condition Complete of a Summary, with ReasonTooLarge.
const (
	// ReasonMixedTypes: a group has values that can't be combined with each other.
	ReasonMixedTypes = "MixedTypes"
)
