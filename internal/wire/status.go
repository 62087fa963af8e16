package wire

// AgentStatus is what an agent says of itself: the body of a status request,
// sent when a session begins and whenever something in it has changed. The
// answer is a StatusAnswer.
type AgentStatus struct {
	// Version is the agent's own.
	Version string `json:"version,omitempty"`
	// KubernetesVersion is the target's; empty while it is not known.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// APIsDigest is the digest of the list of what the target serves; APIs is
	// that list, sent only to a hub that asked for it.
	APIsDigest string `json:"apisDigest,omitempty"`
	APIs       []API  `json:"apis,omitempty"`
	// Halted is why nothing is changed at the target; empty: it is.
	Halted string `json:"halted,omitempty"`
	// Lineage says whether the hub's log continues the one that the agent knows.
	Lineage Lineage `json:"lineage,omitempty"`
	// Awaits is the marker whose acceptance would make an unproven log proven.
	Awaits string `json:"awaits,omitempty"`
	// Deferred counts changes that wait for proof of lineage.
	Deferred int `json:"deferred,omitempty"`
	// Prune are removals that wait for a confirmation; nil: there are none.
	Prune *PruneStatus `json:"prune,omitempty"`
	// Purge is how far the removal of everything has come; nil: it is not asked for.
	Purge *PurgeStatus `json:"purge,omitempty"`
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
	// Spaces are the same by the space of the objects, in order of names.
	Spaces []SpacePrune `json:"spaces,omitempty"`
	// Placements are the same by the Placement that let go.
	Placements []PlacementPrune `json:"placements,omitempty"`
	// Objects are the first few of them, as SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME.
	Objects []string `json:"objects,omitempty"`
}

// SpacePrune are the removals of one space's objects that wait.
type SpacePrune struct {
	Space   string `json:"space"`
	Pending int    `json:"pending"`
	Digest  string `json:"digest"`
}

// PlacementPrune are the removals that wait of what one Placement let go of, or those
// of a space of which no Placement is known, because a walk found them or because
// there are too many.
type PlacementPrune struct {
	Space     string `json:"space"`
	Placement string `json:"placement,omitempty"`
	Pending   int    `json:"pending"`
	Digest    string `json:"digest"`
}

// PurgeStatus is how far the removal of everything has come.
type PurgeStatus struct {
	// Left counts what is still to go. Kept counts what stays, since others use it;
	// Objects are the first few of those.
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

// Confirmation lets removals go that wait: those that have the digest, of one
// space's objects or of one of its Placements' or, without a space, of the location's,
// of any space's or any Placement's.
type Confirmation struct {
	Space  string `json:"space,omitempty"`
	Digest string `json:"digest"`
}
