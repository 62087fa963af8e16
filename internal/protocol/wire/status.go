package wire

// AgentStatus is an agent's status of itself: the body of a status request, which is sent when a
// session begins and whenever a field changes. The response is a StatusAnswer.
type AgentStatus struct {
	// Version is the agent's own.
	Version string `json:"version,omitempty"`
	// Hub is the URL at which the agent reaches the hub, and Trusts the authorities that it trusts
	// there; see Endpoint.Fingerprints.
	Hub    string   `json:"hub,omitempty"`
	Trusts []string `json:"trusts,omitempty"`
	// KubernetesVersion is the version of the cluster; empty while it is unknown.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// StoreEncrypted reports whether the agent encrypts its store on disk with a key that is kept
	// elsewhere.
	StoreEncrypted bool `json:"storeEncrypted,omitempty"`
	// APIsDigest is the digest of the list of APIs that the cluster serves; APIs is that list, sent
	// only when the hub requests it.
	APIsDigest string `json:"apisDigest,omitempty"`
	APIs       []API  `json:"apis,omitempty"`
	// Halted is the reason why the agent changes nothing in the cluster; empty while it works.
	Halted string `json:"halted,omitempty"`
	// StoreError is the reason why the agent can't write its store; empty while it can. The agent then
	// takes nothing new from the hub.
	StoreError string `json:"storeError,omitempty"`
	// Cluster is the state of the cluster's API server; nil from an agent of an earlier version.
	Cluster *ClusterStatus `json:"cluster,omitempty"`
	// LogIdentity reports whether the hub's log continues the log that the agent last followed.
	LogIdentity LogIdentity `json:"lineage,omitempty"`
	// Awaits is the marker of the log that an administrator can accept.
	Awaits string `json:"awaits,omitempty"`
	// Deferred is the number of changes that wait until the log is proven.
	Deferred int `json:"deferred,omitempty"`
	// Prune describes removals that wait for a confirmation; nil if there are none.
	Prune *PruneStatus `json:"prune,omitempty"`
	// Purge is the progress of the removal of all objects; nil if it is not requested.
	Purge *PurgeStatus `json:"purge,omitempty"`
	// Upsync describes requested objects (Settings.Upsync, Policy.Associated) that are not reported;
	// nil if nothing is missing.
	Upsync *UpsyncStatus `json:"sees,omitempty"`
}

// ClusterStatus reports whether the API server of a cluster responds to its agent.
type ClusterStatus struct {
	State ClusterState `json:"state"`
	// Since is when the API server last responded, or when the agent began to send requests, by the
	// clock of the agent (RFC 3339). Message is the reason why it does not respond. Both are empty
	// unless it is unavailable.
	Since   string `json:"since,omitempty"`
	Message string `json:"message,omitempty"`
	// Replaced is when the agent found that the cluster had replaced another one, by the clock of
	// the agent (RFC 3339); empty if it did not.
	Replaced string `json:"replaced,omitempty"`
}

// ClusterState is the state of an API server.
type ClusterState string

// The states of a cluster. It is Unknown until an agent has received its first response.
const (
	ClusterAvailable   ClusterState = "Available"
	ClusterUnavailable ClusterState = "Unavailable"
	ClusterUnknown     ClusterState = "Unknown"
)

// UpsyncStatus describes requested objects that are not reported.
type UpsyncStatus struct {
	// Omitted is the number of objects created at the location that exceed Settings.UpsyncObjects
	// or UpsyncBytes.
	Omitted int `json:"leftOut,omitempty"`
	// Unread are the first few of the kinds that can't be read, in order, with reasons.
	Unread []UnreadKind `json:"unread,omitempty"`
}

// MaxUnread is the maximum number of kinds in UpsyncStatus.
const MaxUnread = 20

// UnreadKind is a kind that can't be read. Earlier reports of its objects stay.
type UnreadKind struct {
	Group    string `json:"group"` // core group: core
	Resource string `json:"resource"`
	Message  string `json:"message"`
}

// LogIdentity reports whether a hub's log continues the log that an agent last followed.
type LogIdentity string

// The values of LogIdentity.
const (
	Proven   LogIdentity = "Proven"
	Unproven LogIdentity = "Unproven"
)

// PruneStatus describes removals that wait for a confirmation with their digest.
type PruneStatus struct {
	Pending int    `json:"pending"`
	Digest  string `json:"digest"`
	// Spaces are the same removals by the space of the objects, ordered by name.
	Spaces []SpacePrune `json:"spaces,omitempty"`
	// Placements are the same removals by the Placement that no longer assigns the objects.
	Placements []PlacementPrune `json:"placements,omitempty"`
	// Objects are the first few of the objects to remove, as SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME.
	Objects []string `json:"objects,omitempty"`
}

// SpacePrune describes the pending removals of one space's objects.
type SpacePrune struct {
	Space   string `json:"space"`
	Pending int    `json:"pending"`
	Digest  string `json:"digest"`
}

// PlacementPrune describes the pending removals of objects that one Placement no longer assigns.
// Without a Placement, it describes those of a space whose Placement is unknown, because a
// comparison found them or there are too many.
type PlacementPrune struct {
	Space     string `json:"space"`
	Placement string `json:"placement,omitempty"`
	Pending   int    `json:"pending"`
	Digest    string `json:"digest"`
}

// PurgeStatus is the progress of the removal of all objects.
type PurgeStatus struct {
	// Left is the number of objects that have yet to be removed, and Kept the number that stay
	// because other objects use them. Objects are the first few of the latter.
	Left    int      `json:"left"`
	Kept    int      `json:"kept,omitempty"`
	Objects []string `json:"objects,omitempty"`
}

// API is one group and version that a cluster serves.
type API struct {
	GroupVersion string `json:"groupVersion"`
	// Digest is a prefix of the cluster's hash of its schemas.
	Digest string `json:"digest,omitempty"`
	// Resources are the names of its resources, in order.
	Resources []string `json:"resources,omitempty"`
}

// StatusAnswer is the response to a status request.
type StatusAnswer struct {
	// SendAPIs requests the list of APIs, which the hub does not have.
	SendAPIs bool `json:"sendAPIs,omitempty"`
}

// Confirmation confirms the pending removals with the digest. With a space, they are those of the
// space's objects or of one of its Placements. Without one, they can also be those of the whole
// location, of any space or of any Placement.
type Confirmation struct {
	Space  string `json:"space,omitempty"`
	Digest string `json:"digest"`
}
