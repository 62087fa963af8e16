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

	// Spec defines how Orrery manages the location.
	// +optional
	Spec LocationSpec `json:"spec,omitempty,omitzero"`
	// Status is the observed state of the location.
	// +optional
	Status LocationStatus `json:"status,omitempty,omitzero"`
}

// Mapping defines whether the agent of a location changes the cluster.
//
// +kubebuilder:validation:Enum=Active;Paused
type Mapping string

const (
	// MappingActive keeps the location equal to its assigned objects.
	MappingActive Mapping = "Active"
	// MappingPaused changes nothing at the location.
	MappingPaused Mapping = "Paused"
)

// NamespacePlacing defines how namespaces of spaces map to namespaces of a location's cluster.
//
// +kubebuilder:validation:Enum=Same;Prefixed
type NamespacePlacing string

const (
	// NamespacesSame places an object in the namespace of the same name.
	NamespacesSame NamespacePlacing = "Same"
	// NamespacesPrefixed places the objects of each space in namespaces of that space.
	NamespacesPrefixed NamespacePlacing = "Prefixed"
)

// LocationSpec defines how Orrery manages a location.
type LocationSpec struct {
	// Mapping is Active or Paused. While it is Paused, the agent changes nothing at the location.
	// +optional
	// +kubebuilder:default=Active
	Mapping Mapping `json:"mapping,omitempty"`
	// Namespaces is Same or Prefixed; Same when absent. It can't be changed. With Prefixed, objects
	// in namespace NS of space S are placed in namespace S--NS of the cluster, so spaces can use
	// the same namespace names. A result of more than 63 characters is truncated and ends in a
	// hash. Cluster-scoped objects other than Namespaces are refused.
	// +optional
	Namespaces NamespacePlacing `json:"namespaces,omitempty"`
	// Properties are values of the location that Customizers may use: any JSON, by name.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Properties map[string]apiextensionsv1.JSON `json:"properties,omitempty"`
	// Taints keep objects away from the location unless their Placement tolerates them.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MaxItems=64
	Taints []Taint `json:"taints,omitempty"`
	// Prune limits the deletions that a change of policy may cause.
	// +optional
	Prune Prune `json:"prune,omitempty,omitzero"`
	// Limits limit how much the location reports.
	// +optional
	Limits LocationLimits `json:"limits,omitempty,omitzero"`
	// Shards is how many agents share the location; 1 when absent. Each agent serves a fixed part
	// of the spaces. Start the agents with --shards K/N, where N is this number. The hub rejects
	// agents that were started with another number. These keep managing their objects in the
	// cluster until they end.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	Shards int32 `json:"shards,omitempty"`
	// Admit lists the objects that may be placed here, and the identity that the agent uses for
	// them. The first entry that matches an object applies; an object that no entry matches is not
	// placed here. When absent, all objects of all spaces may be placed, with the rights of the
	// agent. An empty list admits nothing.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Admit []Admit `json:"admit,omitzero"`
	// TakesOver lists deleted locations whose objects in the cluster this location takes over. Each
	// entry is NAME.UID8, the value of the label orrery.dev/location on their objects. An entry
	// can't name an existing Location, nor one that another Location takes over. Objects that are
	// not assigned here stay until an administrator confirms their removal.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=49
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?\.[0-9a-f]{8}$`
	TakesOver []string `json:"takesOver,omitempty"`
}

// LocationLimits limit how much a location reports about objects that Orrery did not place there.
type LocationLimits struct {
	// UpsyncObjects is the maximum number of objects that the location reports for upsync; 20,000
	// when absent. An object that two spaces select counts twice.
	// +kubebuilder:validation:Minimum=0
	// +optional
	UpsyncObjects *int64 `json:"upsyncObjects,omitempty"`
	// UpsyncBytes is the maximum total size of these objects; 64Mi when absent.
	// +optional
	UpsyncBytes *resource.Quantity `json:"upsyncBytes,omitempty"`
}

// Taint keeps objects away from a location unless their Placement tolerates it.
type Taint struct {
	// Key is the key of the taint. It has the syntax of a label key.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key"`
	// Value is the value of the taint. It has the syntax of a label value.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`
	// Effect is NoPlace or Evict.
	Effect TaintEffect `json:"effect"`
}

// String returns the taint in the notation of kubectl.
func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}

// TaintEffect is the effect of a taint on objects that do not tolerate it. NoPlace places no more
// of them, but keeps those that were assigned before the taint was added. Evict removes these, too.
// An object's annotation orrery.dev/assigned-locations overrides NoPlace, but not Evict.
//
// +kubebuilder:validation:Enum=NoPlace;Evict
type TaintEffect string

const (
	// TaintNoPlace places no more objects.
	TaintNoPlace TaintEffect = "NoPlace"
	// TaintEvict also removes placed objects.
	TaintEvict TaintEffect = "Evict"
)

// Admit matches objects that may be placed at a location. An object matches if all given fields
// match; an entry without fields matches every object. An entry that is invalid, for example
// because of its selector, admits nothing, and neither do the entries after it.
type Admit struct {
	// Spaces selects the spaces of the objects; all spaces including root when absent.
	// +optional
	Spaces *SpaceSelector `json:"spaces,omitempty"`
	// Kinds match the kind of the object, by any entry; all kinds when absent.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Kinds []KindTest `json:"kinds,omitzero"`
	// Namespaces are the namespaces of the objects. When absent, objects match in all namespaces
	// and cluster-scoped. A Namespace itself is cluster-scoped.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespaces []string `json:"namespaces,omitzero"`
	// Impersonate is the identity that the agent uses for matching objects; its own when absent.
	// +optional
	Impersonate *Impersonate `json:"impersonate,omitempty"`
}

// KindTest matches kinds. All given fields must match.
//
// +kubebuilder:validation:XValidation:rule="has(self.apiGroup) || has(self.resources)",message="give apiGroup, resources, or both"
type KindTest struct {
	// APIGroup is the API group of the kind: "" or core is the core group, "*" any; any when
	// absent.
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

// Impersonate defines the identity that the agent uses at a location.
type Impersonate struct {
	// ServiceAccount is a ServiceAccount of the location's cluster, as NAMESPACE/NAME. The agent
	// impersonates it in each request about the objects, so the rights of the ServiceAccount limit
	// what the agent can change and read. The agent needs the right to impersonate it.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`
	ServiceAccount string `json:"serviceAccount"`
}

// Prune limits the deletions at a location that result from a change of policy, and not from the
// deletion of the object itself.
type Prune struct {
	// MaxPercent is the percentage of the location's objects that may be removed within ten
	// minutes. Up to 50 objects may always be removed. Further removals wait for a confirmation.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=30
	MaxPercent *int32 `json:"maxPercent,omitempty"`
}

// LocationStatus is the observed state of a location.
type LocationStatus struct {
	// ObservedGeneration is the generation that the status describes, computed at each read.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Enrolled, Connected, ClusterAvailable, Synced, Compatible, Upsynced and Ready. Enrolled: an
	// agent has joined, and its enrolment is not revoked. Connected: the agents of all shards hold
	// a session; the hub writes it only when it changes. ClusterAvailable: the API server of the
	// cluster answers the agent. Synced: all assigned objects are applied; the hub computes it at
	// each read. Compatible: agent and hub can work together. While Compatible is False, the agent
	// changes nothing. Ready: the location can take objects, since the agents are connected, the
	// cluster answers, and nothing halts them. It does not depend on the assigned objects.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Agent is the last status that the agent reported about itself.
	// +optional
	Agent *AgentStatus `json:"agent,omitempty"`
	// Taints record when each taint was added. Objects that were assigned before stay despite
	// NoPlace.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	Taints     []TaintStatus `json:"taints,omitempty"`
	Counts     `json:",inline"`
	LeftCounts `json:",inline"`
}

// TaintStatus records when a taint was added.
type TaintStatus struct {
	Key    string      `json:"key"`
	Effect TaintEffect `json:"effect"`
	// ResourceVersion is the resource version of the hub at which the taint was added.
	ResourceVersion string `json:"resourceVersion"`
}

// LeftCounts counts objects that are no longer assigned to a location but still exist there.
type LeftCounts struct {
	// Leaving counts objects that the agent is removing or has yet to remove.
	// +optional
	Leaving int64 `json:"leaving,omitempty"`
	// Leftovers counts objects that stay because other objects at the location use them. "orrery
	// status" and "orrery why" show these users, and how to get the object removed.
	// +optional
	Leftovers int64 `json:"leftovers,omitempty"`
}

// AgentStatus is the status that an agent reports about itself.
type AgentStatus struct {
	// Version is the version of orrery-agent.
	// +optional
	Version string `json:"version,omitempty"`
	// KubernetesVersion is the version of the cluster.
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// Hub is the URL at which the agent reaches the hub. Trusts are the certificate authorities
	// that the agent trusts for it: the first digits of their SHA-256 fingerprints, or "system" for
	// the system's certificate pool.
	// +optional
	Hub string `json:"hub,omitempty"`
	// +optional
	// +listType=atomic
	Trusts []string `json:"trusts,omitempty"`
	// SignedBy is the certificate authority of the hub that signed the certificate which the agent
	// last presented. It has the format of Trusts, and is empty if the agent has no certificate.
	// +optional
	SignedBy string `json:"signedBy,omitempty"`
	// StoreEncrypted reports whether the agent encrypts its store on disk with a key that is kept
	// outside that disk.
	// +optional
	StoreEncrypted bool `json:"storeEncrypted,omitempty"`
	// APIsDigest is a digest of the kinds, versions and schemas that the cluster serves.
	// +optional
	APIsDigest string `json:"apisDigest,omitempty"`
	// Halted is the reason why the agent changes nothing at the cluster; empty while it works.
	// +optional
	Halted string `json:"halted,omitempty"`
	// StoreError is the reason why the agent can't write its data directory; empty while it can. The agent
	// then keeps its objects and takes no new ones.
	// +optional
	StoreError string `json:"storeError,omitempty"`
	// It is Proven if the hub's log continues the log that the agent last followed, and
	// Unproven if that is not known.
	// +optional
	LogIdentity string `json:"lineage,omitempty"`
	// Awaits is the epoch of the log that "orrery location accept" would accept.
	// +optional
	Awaits string `json:"awaits,omitempty"`
	// Deferred counts the changes that wait until the log is accepted.
	// +optional
	Deferred int64 `json:"deferred,omitempty"`
	// Shards is the status of each agent, if several share the location. The other fields then
	// combine all agents.
	// +optional
	// +listType=atomic
	Shards []ShardStatus `json:"shards,omitempty"`
	// Prune describes removals that wait for a confirmation.
	// +optional
	Prune *PendingPrune `json:"prune,omitempty"`
	// Purge is the progress of the removal of all objects.
	// +optional
	Purge *PurgeProgress `json:"purge,omitempty"`
}

// ShardStatus is the status of one of the agents that share a location.
type ShardStatus struct {
	// Shard is K/N: agent K of N.
	Shard string `json:"shard"`
	// Connected reports whether the agent holds a session.
	Connected bool `json:"connected"`
	// Version is the version of orrery-agent.
	// +optional
	Version string `json:"version,omitempty"`
	// Halted is the reason why the agent changes nothing at the cluster; empty while it works.
	// +optional
	Halted string `json:"halted,omitempty"`
}

// PendingPrune describes removals at a location that wait for a confirmation, because they exceed
// spec.prune.
type PendingPrune struct {
	// Pending is the number of removals.
	Pending int64 `json:"pending"`
	// Digest identifies exactly these removals, for "orrery location confirm-prune --digest".
	Digest string `json:"digest"`
	// Spaces are the same removals by space. The annotation orrery.dev/confirm-prune on a Placement
	// of a space can confirm the digest of that space.
	// +optional
	// +listType=atomic
	Spaces []SpacePrune `json:"spaces,omitempty"`
	// Placements are the same removals by the Placement that no longer assigns the objects.
	// +optional
	// +listType=atomic
	Placements []PlacementPrune `json:"placements,omitempty"`
	// Objects are the first few of the objects to remove, as SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME.
	// +optional
	// +listType=atomic
	Objects []string `json:"objects,omitempty"`
}

// PlacementPrune describes pending removals of objects that one Placement no longer assigns.
type PlacementPrune struct {
	// Space is the name of the space.
	Space string `json:"space"`
	// Placement is the name of the Placement; empty for removals whose Placement is unknown.
	// +optional
	Placement string `json:"placement,omitempty"`
	// Pending is the number of removals.
	Pending int64 `json:"pending"`
	// Digest identifies exactly these removals at this location.
	Digest string `json:"digest"`
}

// SpacePrune describes pending removals of objects of one space.
type SpacePrune struct {
	// Space is the name of the space.
	Space string `json:"space"`
	// Pending is the number of removals.
	Pending int64 `json:"pending"`
	// Digest identifies exactly these removals.
	Digest string `json:"digest"`
}

// PurgeProgress is the progress of the removal of all objects from a location.
type PurgeProgress struct {
	// Left is the number of objects that have yet to be removed.
	Left int64 `json:"left"`
	// Kept is the number of objects that stay because other objects at the cluster use them.
	// +optional
	Kept int64 `json:"kept,omitempty"`
	// Objects are the first few of the remaining objects.
	// +optional
	// +listType=atomic
	Objects []string `json:"objects,omitempty"`
}

// Counts counts pairs of object and location by state.
type Counts struct {
	// Assigned is the number of all pairs.
	// +optional
	Assigned int64 `json:"assigned"`
	// Applied counts pairs whose location has the object as desired.
	// +optional
	Applied int64 `json:"applied"`
	// Healthy counts applied pairs whose object works as its spec requests.
	// +optional
	Healthy int64 `json:"healthy"`
	// Mutated counts applied pairs where admission at the location changed values. Applied includes
	// them.
	// +optional
	Mutated int64 `json:"mutated"`
	// Failed counts pairs whose object can't be applied in its present form.
	// +optional
	Failed int64 `json:"failed"`
	// Held counts pairs whose location keeps the present object without applying changes.
	// +optional
	Held int64 `json:"held"`
	// Stale counts pairs whose reports may be outdated: the location is not connected, or its agent
	// can't reach the cluster.
	// +optional
	Stale int64 `json:"stale"`
}

// Add adds other to c.
func (c *Counts) Add(other Counts) {
	c.Assigned += other.Assigned
	c.Applied += other.Applied
	c.Healthy += other.Healthy
	c.Mutated += other.Mutated
	c.Failed += other.Failed
	c.Held += other.Held
	c.Stale += other.Stale
}

// Condition types, and reasons that belong to only one of them.
const (
	// ConditionEnrolled reports whether an agent has joined. It is False after its enrolment was
	// revoked.
	ConditionEnrolled = "Enrolled"
	// ConditionConnected reports whether an agent holds a session with the hub.
	ConditionConnected = "Connected"
	// ConditionClusterAvailable of a Location reports whether the API server of its cluster answers
	// the agent. While it is False, all reports about objects there may be outdated. The condition
	// is absent if the agent is of an earlier version.
	ConditionClusterAvailable = "ClusterAvailable"
	// ConditionUpsynced, of a Location, reports whether the objects that spaces select by upsync
	// come back from it. Of a Placement, it reports whether all its locations are asked for them.
	// It is absent where no upsync is requested.
	ConditionUpsynced = "Upsynced"
	// ConditionSynced reports whether all assigned objects are applied.
	ConditionSynced = "Synced"
	// ConditionCompatible reports whether agent and hub can work together. While it is False, the
	// agent changes nothing.
	ConditionCompatible = "Compatible"
	// ConditionReady reports whether an object of an evaluated generation is in effect as a whole.
	ConditionReady = "Ready"
	// ConditionAccepted reports whether the spec of a Placement or Customizer is valid.
	ConditionAccepted = "Accepted"
	// ConditionLocationsKnown is False, with ReasonNoSuchLocation, while a Placement names
	// locations that do not exist; otherwise it is absent.
	ConditionLocationsKnown = "LocationsKnown"
	// ConditionComplete reports whether a Summary has all rows up to its limit.
	ConditionComplete = "Complete"
	// ConditionWholeReleases is False, with ReasonPartOfHelmRelease, while a Placement
	// matches some objects of a Helm release but not all; otherwise it is absent.
	ConditionWholeReleases = "WholeReleases"
	// ReasonPartOfHelmRelease is the reason of ConditionWholeReleases.
	ReasonPartOfHelmRelease = "PartOfHelmRelease"
	// ConditionStatusReturned is False, with ReasonStatusLeftOut, while statuses that a Placement
	// requests are too large to return; otherwise it is absent.
	ConditionStatusReturned = "StatusReturned"
	// ReasonStatusLeftOut is the reason of ConditionStatusReturned.
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
