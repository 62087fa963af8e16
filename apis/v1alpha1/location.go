package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Location is a cluster that runs workloads. Placements select locations by
// their labels. Locations are created in the space root and can be read in
// every space.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=loc,categories=orrery
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Connected",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].status`
// +kubebuilder:printcolumn:name="Mapping",type=string,JSONPath=`.spec.mapping`,priority=1
// +kubebuilder:printcolumn:name="Assigned",type=integer,JSONPath=`.status.assigned`
// +kubebuilder:printcolumn:name="Applied",type=integer,JSONPath=`.status.applied`
// +kubebuilder:printcolumn:name="Healthy",type=integer,JSONPath=`.status.healthy`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="Kubernetes",type=string,JSONPath=`.status.agent.kubernetesVersion`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && !self.metadata.name.contains('--')",message="the name of a location is a DNS label of at most 40 characters without \"--\""
// +kubebuilder:validation:XValidation:rule="(has(self.spec) && has(self.spec.namespaces) ? self.spec.namespaces : 'Same') == (has(oldSelf.spec) && has(oldSelf.spec.namespaces) ? oldSelf.spec.namespaces : 'Same')",fieldPath=".spec.namespaces",message="can't be changed, since what is at the cluster would not move: add another location"
type Location struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says how the location is managed.
	// +optional
	Spec LocationSpec `json:"spec,omitempty,omitzero"`
	// Status is what the hub knows of the location.
	// +optional
	Status LocationStatus `json:"status,omitempty,omitzero"`
}

// Mapping says whether the agent of a location works.
//
// +kubebuilder:validation:Enum=Active;Paused
type Mapping string

const (
	// MappingActive keeps the location equal to what is assigned to it.
	MappingActive Mapping = "Active"
	// MappingPaused changes nothing at the location.
	MappingPaused Mapping = "Paused"
)

// NamespacePlacing is into which namespaces of its cluster a location puts objects.
//
// +kubebuilder:validation:Enum=Same;Prefixed
type NamespacePlacing string

const (
	// NamespacesSame puts objects into the namespace that they are in.
	NamespacesSame NamespacePlacing = "Same"
	// NamespacesPrefixed puts objects of each space into namespaces of that space.
	NamespacesPrefixed NamespacePlacing = "Prefixed"
)

// LocationSpec says how a location is managed.
type LocationSpec struct {
	// Mapping is Active, or Paused: then the agent changes nothing at the location.
	// +optional
	// +kubebuilder:default=Active
	Mapping Mapping `json:"mapping,omitempty"`
	// Namespaces is Same, or Prefixed: then what is in namespace NS of a space S gets into
	// namespace S--NS of the cluster, so that spaces can have the same namespaces there. A
	// name of more than 63 characters is cut, and ends in a hash. Cluster-scoped objects
	// other than Namespaces are refused. It can't be changed. Same when absent.
	// +optional
	Namespaces NamespacePlacing `json:"namespaces,omitempty"`
	// Properties are what Customizers may use of the location: any JSON by name.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Properties map[string]apiextensionsv1.JSON `json:"properties,omitempty"`
	// Taints keep objects away whose Placement does not tolerate them.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MaxItems=64
	Taints []Taint `json:"taints,omitempty"`
	// Prune bounds the deletions that may follow from a change of policy.
	// +optional
	Prune Prune `json:"prune,omitempty,omitzero"`
	// Limits bound what the location reports.
	// +optional
	Limits LocationLimits `json:"limits,omitempty,omitzero"`
	// Shards is how many agents share the location, each with the spaces that fall to it. They
	// are started with --shards K/N, where N is this number. Agents that are started with
	// another number are not heard; what they hold at the cluster stays theirs until they end.
	// 1 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	Shards int32 `json:"shards,omitempty"`
	// Admit says which objects may be placed here, and with whose rights. For each
	// object the first entry that matches it counts; what none matches does not come
	// here. Absent: everything of every space may, with the rights of the agent. The
	// empty list admits nothing.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Admit []Admit `json:"admit,omitzero"`
	// TakesOver are locations that are no more and whose objects at the cluster become
	// this one's: each as NAME.UID8, the value of the label orrery.dev/location that their
	// agent gave to objects. They can't be those of a Location that there is, nor of one
	// that another Location takes over. What is not placed here stays until its removal is
	// confirmed.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=49
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?\.[0-9a-f]{8}$`
	TakesOver []string `json:"takesOver,omitempty"`
}

// LocationLimits bound what a location reports of objects that were not placed there.
type LocationLimits struct {
	// UpsyncObjects is how many objects come back that are born at the location, one that
	// two spaces ask for being two. 20,000 when absent.
	// +kubebuilder:validation:Minimum=0
	// +optional
	UpsyncObjects *int64 `json:"upsyncObjects,omitempty"`
	// UpsyncBytes is how large they may be together. 64Mi when absent.
	// +optional
	UpsyncBytes *resource.Quantity `json:"upsyncBytes,omitempty"`
}

// Taint keeps objects away from a location unless their Placement tolerates it.
type Taint struct {
	// Key of the taint, as that of a label.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key"`
	// Value of the taint, as that of a label.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`
	// Effect is NoPlace, or Evict.
	Effect TaintEffect `json:"effect"`
}

// String is the taint as kubectl writes it.
func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}

// TaintEffect is what a taint does to objects that do not tolerate it: NoPlace has no
// more of them come, but keeps those that the location had when it was tainted; Evict
// removes these, too. An object's annotation of direct assignment is stronger than
// NoPlace, not than Evict.
//
// +kubebuilder:validation:Enum=NoPlace;Evict
type TaintEffect string

const (
	// TaintNoPlace has no more objects come.
	TaintNoPlace TaintEffect = "NoPlace"
	// TaintEvict removes objects, too.
	TaintEvict TaintEffect = "Evict"
)

// Admit matches objects that may be placed at a location: all fields that are given
// must match. An entry without any matches everything. One that can't be used, for an
// invalid selector, admits nothing, nor do those after it.
type Admit struct {
	// Spaces whose objects it matches; all, root included, when absent.
	// +optional
	Spaces *SpaceSelector `json:"spaces,omitempty"`
	// Kinds that it matches, by any entry; all when absent.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Kinds []KindTest `json:"kinds,omitzero"`
	// Namespaces of the objects that it matches; all, and what is in none, when absent.
	// Cluster-scoped objects, Namespaces among them, are in none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespaces []string `json:"namespaces,omitzero"`
	// Impersonate names who acts for what it matches; the agent itself when absent.
	// +optional
	Impersonate *Impersonate `json:"impersonate,omitempty"`
}

// KindTest matches kinds: all fields that are given must match.
//
// +kubebuilder:validation:XValidation:rule="has(self.apiGroup) || has(self.resources)",message="give apiGroup, resources, or both"
type KindTest struct {
	// APIGroup of the kind: "" or core is the core group, "*" any; any when absent.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup *string `json:"apiGroup,omitempty"`
	// Resources are lower-case plural names, or "*".
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*|[a-z]([-a-z0-9]*[a-z0-9])?)$`
	Resources []string `json:"resources,omitzero"`
}

// Impersonate names who acts at a location.
type Impersonate struct {
	// ServiceAccount of the location's cluster, as NAMESPACE/NAME: every request about
	// the objects is made in its name, so that no more is done with them, nor heard of
	// them, than it may do and read. The agent needs the right to impersonate it.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`
	ServiceAccount string `json:"serviceAccount"`
}

// Prune bounds the deletions at a location that follow from a change of policy
// rather than from the deletion of the object itself.
type Prune struct {
	// MaxPercent is how many percent of the location's objects may be removed within
	// ten minutes; 50 objects always may. Further removals wait for a confirmation.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=30
	MaxPercent *int32 `json:"maxPercent,omitempty"`
}

// LocationStatus is what the hub knows of a location.
type LocationStatus struct {
	// Conditions has Enrolled: an agent has joined, and its enrolment was not revoked
	// since; Connected: the agents of all shards hold a session (written only when it changes); ClusterAvailable: the
	// cluster's API server answers the agent; Synced: everything assigned is applied (computed when read); Compatible: agent and hub can work together.
	// While Compatible is False the agent changes nothing.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Agent is what the agent last said of itself.
	// +optional
	Agent *AgentStatus `json:"agent,omitempty"`
	// Taints says when each taint came: objects that the location had then stay.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	Taints     []TaintStatus `json:"taints,omitempty"`
	Counts     `json:",inline"`
	LeftCounts `json:",inline"`
}

// TaintStatus says when a taint came.
type TaintStatus struct {
	Key    string      `json:"key"`
	Effect TaintEffect `json:"effect"`
	// ResourceVersion is the state of the hub when the taint came.
	ResourceVersion string `json:"resourceVersion"`
}

// LeftCounts counts the objects that are not assigned to a location but still there.
type LeftCounts struct {
	// Leaving: the agent removes the object, or has yet to begin.
	// +optional
	Leaving int64 `json:"leaving,omitempty"`
	// Leftovers: the object stays because others at the location use it. "orrery
	// status" and "orrery why" show who does, and how to get it removed.
	// +optional
	Leftovers int64 `json:"leftovers,omitempty"`
}

// AgentStatus is what an agent says of itself.
type AgentStatus struct {
	// Version is the version of orrery-agent.
	// +optional
	Version string `json:"version,omitempty"`
	// KubernetesVersion is the version of the cluster.
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// Hub is the URL under which the agent reaches the hub, and Trusts are the certificate
	// authorities that it trusts there: the first digits of their SHA-256 fingerprints, or
	// "system" for those of its system.
	// +optional
	Hub string `json:"hub,omitempty"`
	// +optional
	// +listType=atomic
	Trusts []string `json:"trusts,omitempty"`
	// SignedBy is the hub's certificate authority that has signed the certificate which the
	// agent last showed, as in Trusts; empty if it has none.
	// +optional
	SignedBy string `json:"signedBy,omitempty"`
	// StoreEncrypted says that what the agent keeps on disk is encrypted, by a key that is
	// kept elsewhere.
	// +optional
	StoreEncrypted bool `json:"storeEncrypted,omitempty"`
	// APIsDigest is a digest of the kinds, versions and schemas that the cluster serves.
	// +optional
	APIsDigest string `json:"apisDigest,omitempty"`
	// Halted says why the agent changes nothing at the cluster; empty while it works.
	// +optional
	Halted string `json:"halted,omitempty"`
	// StoreError is why the agent can't write its data directory: it keeps what it has, and takes nothing
	// new. Empty while it can.
	// +optional
	StoreError string `json:"storeError,omitempty"`
	// Lineage is Proven, or Unproven: the hub's log does not continue the one that
	// the agent knows.
	// +optional
	Lineage string `json:"lineage,omitempty"`
	// Awaits is the marker of the log that "orrery location accept" would accept.
	// +optional
	Awaits string `json:"awaits,omitempty"`
	// Deferred counts the changes that wait until the log is accepted.
	// +optional
	Deferred int64 `json:"deferred,omitempty"`
	// Shards says of each agent what is not the same of all, if several share the location.
	// The other fields then are of all together.
	// +optional
	// +listType=atomic
	Shards []ShardStatus `json:"shards,omitempty"`
	// Prune are removals that wait for a confirmation.
	// +optional
	Prune *PendingPrune `json:"prune,omitempty"`
	// Purge is the progress of the removal of everything.
	// +optional
	Purge *PurgeProgress `json:"purge,omitempty"`
}

// ShardStatus is what is known of one of the agents that share a location.
type ShardStatus struct {
	// Shard is K/N: number K of N.
	Shard string `json:"shard"`
	// Connected says that the agent holds a session.
	Connected bool `json:"connected"`
	// Version is its version of orrery-agent.
	// +optional
	Version string `json:"version,omitempty"`
	// Halted says why it changes nothing at the cluster; empty while it works.
	// +optional
	Halted string `json:"halted,omitempty"`
}

// PendingPrune are removals at a location that wait for a confirmation, because
// they are more than spec.prune allows.
type PendingPrune struct {
	// Pending counts them.
	Pending int64 `json:"pending"`
	// Digest names exactly these, for "orrery location confirm-prune --digest".
	Digest string `json:"digest"`
	// Spaces are the same removals by space. The digest of one can be confirmed by
	// the annotation orrery.dev/confirm-prune of a Placement of that space.
	// +optional
	// +listType=atomic
	Spaces []SpacePrune `json:"spaces,omitempty"`
	// Placements are the same removals by the Placement that no longer assigns the
	// objects.
	// +optional
	// +listType=atomic
	Placements []PlacementPrune `json:"placements,omitempty"`
	// Objects are the first few of them, as SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME.
	// +optional
	// +listType=atomic
	Objects []string `json:"objects,omitempty"`
}

// PlacementPrune are the pending removals of objects that one Placement no longer
// assigns.
type PlacementPrune struct {
	// Space is the name of the space.
	Space string `json:"space"`
	// Placement is its name; empty for removals of which no Placement is known.
	// +optional
	Placement string `json:"placement,omitempty"`
	// Pending counts them.
	Pending int64 `json:"pending"`
	// Digest names exactly these, at this location.
	Digest string `json:"digest"`
}

// SpacePrune are the pending removals of one space's objects.
type SpacePrune struct {
	// Space is the name of the space.
	Space string `json:"space"`
	// Pending counts them.
	Pending int64 `json:"pending"`
	// Digest names exactly these.
	Digest string `json:"digest"`
}

// PurgeProgress is the progress of the removal of everything from a location.
type PurgeProgress struct {
	// Left counts the objects that have yet to be removed.
	Left int64 `json:"left"`
	// Kept counts the objects that stay because others at the cluster use them.
	// +optional
	Kept int64 `json:"kept,omitempty"`
	// Objects are the first few of what stays.
	// +optional
	// +listType=atomic
	Objects []string `json:"objects,omitempty"`
}

// Counts counts pairs of object and location by their state.
type Counts struct {
	// Assigned: all pairs.
	// +optional
	Assigned int64 `json:"assigned"`
	// Applied: the location has the object as desired.
	// +optional
	Applied int64 `json:"applied"`
	// Healthy: it is applied, and does at the location what its spec asks for.
	// +optional
	Healthy int64 `json:"healthy"`
	// Mutated: it is applied, but admission at the location sets other values than
	// it says. These count as Applied, too.
	// +optional
	Mutated int64 `json:"mutated"`
	// Failed: the object can't be applied as it is.
	// +optional
	Failed int64 `json:"failed"`
	// Held: the location keeps the object as it has it.
	// +optional
	Held int64 `json:"held"`
	// Stale: the location is not connected, or its agent can't see the cluster, so its reports may be old.
	// +optional
	Stale int64 `json:"stale"`
}

// Add adds other counts to these.
func (c *Counts) Add(other Counts) {
	c.Assigned += other.Assigned
	c.Applied += other.Applied
	c.Healthy += other.Healthy
	c.Mutated += other.Mutated
	c.Failed += other.Failed
	c.Held += other.Held
	c.Stale += other.Stale
}

// Condition types, and reasons that only one of them has.
const (
	// ConditionEnrolled says that an agent has joined. It is False once its enrolment was
	// revoked.
	ConditionEnrolled = "Enrolled"
	// ConditionConnected says that an agent holds a session with the hub.
	ConditionConnected = "Connected"
	// ConditionClusterAvailable of a Location reports whether the API server of its cluster answers
	// the agent. While it is False, all that is known of the objects there may be old. A Location
	// whose agent is of an earlier version does not have it.
	ConditionClusterAvailable = "ClusterAvailable"
	// ConditionUpsynced says, of a Location, whether what spaces ask to see of it comes back
	// and, of a Placement, whether it is asked for at all its locations. Others don't have it.
	ConditionUpsynced = "Upsynced"
	// ConditionSynced says that everything assigned is applied.
	ConditionSynced = "Synced"
	// ConditionCompatible says that agent and hub can work together. While it is
	// False the agent changes nothing.
	ConditionCompatible = "Compatible"
	// ConditionReady says that a Space is served.
	ConditionReady = "Ready"
	// ConditionAccepted says that a Placement's or Customizer's spec can be used.
	ConditionAccepted = "Accepted"
	// ConditionLocationsKnown is False, with ReasonNoSuchLocation, while a Placement names
	// locations that do not exist; others do not have it.
	ConditionLocationsKnown = "LocationsKnown"
	// ConditionComplete says that the rows of a Summary have all that they should, but for
	// what its limit leaves out. Otherwise its reason is ReasonTooLarge or ReasonMixedTypes.
	ConditionComplete = "Complete"
	// ConditionWholeReleases is False, with ReasonPartOfHelmRelease, while a Placement
	// matches some objects of a Helm release but not all; otherwise it is absent.
	ConditionWholeReleases = "WholeReleases"
	// ReasonPartOfHelmRelease is that condition's reason.
	ReasonPartOfHelmRelease = "PartOfHelmRelease"
	// ConditionStatusReturned is False, with ReasonStatusLeftOut, while statuses that a
	// Placement asks for are too large to come back; otherwise it is absent.
	ConditionStatusReturned = "StatusReturned"
	// ReasonStatusLeftOut is that condition's reason.
	ReasonStatusLeftOut = "StatusLeftOut"
)

// LocationList is a list of locations.
//
// +kubebuilder:object:root=true
type LocationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Location `json:"items"`
}
