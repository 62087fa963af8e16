package wire

// AgentStatus is what an agent says of itself: the body of a status request, sent when
// a session begins and whenever a field changes. The answer is a StatusAnswer.
type AgentStatus struct {
	// Version is the agent's own.
	Version string `json:"version,omitempty"`
	// Hub is the URL under which the agent reaches the hub, and Trusts what it trusts there,
	// see Endpoint.Fingerprints.
	Hub    string   `json:"hub,omitempty"`
	Trusts []string `json:"trusts,omitempty"`
	// KubernetesVersion is the target's; empty while it is not known.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// StoreEncrypted says that what the agent keeps on disk is encrypted, by a key that is
	// kept elsewhere.
	StoreEncrypted bool `json:"storeEncrypted,omitempty"`
	// APIsDigest is the digest of the list of what the target serves; APIs is
	// that list, sent only to a hub that asked for it.
	APIsDigest string `json:"apisDigest,omitempty"`
	APIs       []API  `json:"apis,omitempty"`
	// Halted says why the agent changes nothing at the target; empty while it works.
	Halted string `json:"halted,omitempty"`
	// StoreError is why the agent can't write its store, so that it takes nothing new from the hub; empty: it can.
	StoreError string `json:"storeError,omitempty"`
	// Cluster is whether the target's API server answers; nil from an agent of an earlier version.
	Cluster *ClusterStatus `json:"cluster,omitempty"`
	// Lineage says whether the hub's log continues the one that the agent knows.
	Lineage Lineage `json:"lineage,omitempty"`
	// Awaits is the marker whose acceptance would make an unproven log proven.
	Awaits string `json:"awaits,omitempty"`
	// Deferred counts changes that wait for proof of lineage.
	Deferred int `json:"deferred,omitempty"`
	// Prune are removals that wait for a confirmation; nil: there are none.
	Prune *PruneStatus `json:"prune,omitempty"`
	// Purge is the progress of the removal of everything; nil if it is not asked for.
	Purge *PurgeStatus `json:"purge,omitempty"`
	// Sees says what of that which is asked for (Settings.Upsync, Policy.Associated) does not
	// come back; nil: nothing is missing.
	Sees *SeesStatus `json:"sees,omitempty"`
}

// ClusterStatus is whether the API server of a target answers its agent.
type ClusterStatus struct {
	State ClusterState `json:"state"`
	// Since is when the API server last answered, or when the agent has begun to ask, by the clock
	// of the agent (RFC 3339), and Message why it does not. Both are empty unless it is unavailable.
	Since   string `json:"since,omitempty"`
	Message string `json:"message,omitempty"`
	// Replaced is when the agent found that the cluster had taken the place of another one, by the clock of the
	// agent (RFC 3339); empty: it has not.
	Replaced string `json:"replaced,omitempty"`
}

// ClusterState is whether an API server answers.
type ClusterState string

// The states of a cluster. It is Unknown until an agent that has just started has asked it.
const (
	ClusterAvailable   ClusterState = "Available"
	ClusterUnavailable ClusterState = "Unavailable"
	ClusterUnknown     ClusterState = "Unknown"
)

// SeesStatus is what of that which is asked for does not come back.
type SeesStatus struct {
	// LeftOut counts what was born at the location and would come back, too, if
	// Settings.UpsyncObjects and UpsyncBytes allowed it.
	LeftOut int `json:"leftOut,omitempty"`
	// Unread are the first few of the kinds that can't be read, in order, and why.
	Unread []UnreadKind `json:"unread,omitempty"`
}

// MaxUnread is how many kinds SeesStatus names.
const MaxUnread = 20

// UnreadKind is a kind that can't be read. What came back of it before stays.
type UnreadKind struct {
	Group    string `json:"group"` // core group: core
	Resource string `json:"resource"`
	Message  string `json:"message"`
}

// Lineage says whether a hub's log continues the one that an agent knows.
type Lineage string

// The lineages.
const (
	Proven   Lineage = "Proven"
	Unproven Lineage = "Unproven"
)

// PruneStatus are removals that wait for a confirmation that names their digest.
type PruneStatus struct {
	Pending int    `json:"pending"`
	Digest  string `json:"digest"`
	// Spaces are the same removals by the space of the objects, in order of names.
	Spaces []SpacePrune `json:"spaces,omitempty"`
	// Placements are the same removals by the Placement that no longer assigns the
	// objects.
	Placements []PlacementPrune `json:"placements,omitempty"`
	// Objects are the first few of them, as SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME.
	Objects []string `json:"objects,omitempty"`
}

// SpacePrune are the pending removals of one space's objects.
type SpacePrune struct {
	Space   string `json:"space"`
	Pending int    `json:"pending"`
	Digest  string `json:"digest"`
}

// PlacementPrune are the pending removals of objects that one Placement no longer
// assigns, or those of a space for which no Placement is known, because a walk found
// them or because there are too many.
type PlacementPrune struct {
	Space     string `json:"space"`
	Placement string `json:"placement,omitempty"`
	Pending   int    `json:"pending"`
	Digest    string `json:"digest"`
}

// PurgeStatus is the progress of the removal of everything.
type PurgeStatus struct {
	// Left counts the objects that have yet to be removed, Kept those that stay because
	// others use them; Objects are the first few of the latter.
	Left    int      `json:"left"`
	Kept    int      `json:"kept,omitempty"`
	Objects []string `json:"objects,omitempty"`
}

// API is one group and version that a target serves.
type API struct {
	GroupVersion string `json:"groupVersion"`
	// Digest is a prefix of the hash that the target gives of its schemas.
	Digest string `json:"digest,omitempty"`
	// Resources are the names of its resources, in order.
	Resources []string `json:"resources,omitempty"`
}

// StatusAnswer answers a status request.
type StatusAnswer struct {
	// SendAPIs asks for the list of APIs, which the hub does not have.
	SendAPIs bool `json:"sendAPIs,omitempty"`
}

// Confirmation lets the pending removals with the digest proceed. With a space, they
// are those of the space's objects or of one of its Placements; without one, they may
// be those of the whole location, of any space or of any Placement.
type Confirmation struct {
	Space  string `json:"space,omitempty"`
	Digest string `json:"digest"`
}
