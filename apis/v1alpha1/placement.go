package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Placement decides which objects of its space go to which locations. A Placement in the
// space root can place objects of other spaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=pl,categories=orrery
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Locations",type=integer,JSONPath=`.status.locations`
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.objects`
// +kubebuilder:printcolumn:name="Assigned",type=integer,JSONPath=`.status.assigned`
// +kubebuilder:printcolumn:name="Applied",type=integer,JSONPath=`.status.applied`
// +kubebuilder:printcolumn:name="Healthy",type=integer,JSONPath=`.status.healthy`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="Held",type=integer,JSONPath=`.status.held`,priority=1
// +kubebuilder:printcolumn:name="Stale",type=integer,JSONPath=`.status.stale`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Placement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what goes where.
	Spec PlacementSpec `json:"spec"`
	// Status sums up the state of what is placed.
	// +optional
	Status PlacementStatus `json:"status,omitempty,omitzero"`
}

// PlacementSpec says what goes where.
type PlacementSpec struct {
	// Suspend freezes the objects that no other placement assigns to a location:
	// nothing is created or changed there. Objects that the placement no longer
	// matches are removed all the same.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// Spaces whose objects a Placement in the space root places, instead of those of root
	// itself: it is one more Placement of each of them. It never reaches root. Whoever
	// writes it has to be able to read what it matches in all spaces. Absent: the Placement
	// is about its own space.
	// +optional
	Spaces *SpaceSelector `json:"spaces,omitempty"`
	// Locations get the objects if any entry selects them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Locations []LocationSelector `json:"locations,omitempty"`
	// Pick takes some of them only; all when absent.
	// +optional
	Pick *Pick `json:"pick,omitempty"`
	// Tolerations let objects go to locations in spite of taints there.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []Toleration `json:"tolerations,omitempty"`
	// Downsync selects the objects of the space that go there: those that any entry
	// matches.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Downsync []Downsync `json:"downsync,omitempty"`
	// Upsync selects objects that are born at the locations and seen in the center: those
	// that any entry matches. They are in the reports view, for each space that asks, and
	// never in the space. An object of the space that an entry matches is not placed at these
	// locations, and if it was, it stays there as what is born.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Upsync []Upsync `json:"upsync,omitempty"`
	// OnConflict says what to do where a location has an object of the same
	// identity that Orrery did not create: Fail leaves it alone and reports it; Adopt
	// applies over it and treats it as Orrery's from then on, removal included.
	// Objects that a controller or another location owns are never adopted. If
	// several placements assign an object to a location, Adopt wins.
	// +optional
	// +kubebuilder:default=Fail
	OnConflict OnConflict `json:"onConflict,omitempty"`
	// OnImmutable says what to do where the API server of a location refuses a change
	// because the field is immutable: Fail keeps the object as it is and reports it;
	// Recreate deletes the object and creates it anew, which counts as a removal. What a
	// policy or webhook there refuses is never recreated, nor are Namespaces and
	// CustomResourceDefinitions that are not empty. PersistentVolumeClaims,
	// PersistentVolumes, and StatefulSets that delete their claims are recreated only if
	// they have the annotation orrery.dev/recreate: "true" at the location. Of several
	// placements, Recreate wins.
	// +optional
	// +kubebuilder:default=Fail
	OnImmutable OnImmutable `json:"onImmutable,omitempty"`
	// OnRemove says what becomes of an object at a location to which it is no longer
	// assigned: Delete, or Orphan: it stays as it is, without Orrery's marks. Of
	// several placements, the last one that assigned it decides; of those that
	// stopped together, Orphan wins.
	// +optional
	// +kubebuilder:default=Delete
	OnRemove OnRemove `json:"onRemove,omitempty"`
	// OnDrift says what to do where somebody at a location changes what Orrery
	// applied: Repair undoes the change; Report reports it and leaves it until the
	// object in the space changes. An object that is deleted at a location is created
	// again either way. Of several placements, Repair wins.
	// +optional
	// +kubebuilder:default=Repair
	OnDrift OnDrift `json:"onDrift,omitempty"`
	// WaitForRemoval keeps an object that is deleted in the space, by the finalizer
	// orrery.dev/removal, until each of its locations has said that it is gone from there
	// (or stays, by onRemove: Orphan), or the location itself is deleted. So what waits for
	// the deletion, as kubectl delete does, waits for that. Of several placements, one that
	// waits is enough. Spaces that are deleted do not wait.
	// +optional
	WaitForRemoval bool `json:"waitForRemoval,omitempty"`
}

// Pick takes some of the locations that a Placement selects. Which, depends on nothing but
// the identities of the Placement and of the locations: a change of what is selected moves
// no more than it must, and a connection that is lost moves nothing.
type Pick struct {
	// Count is how many locations are taken, if there are as many.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Count int32 `json:"count"`
	// SpreadBy is the key of a label of locations: as many are taken of each of its values
	// as of the others, as far as there are. Locations without the label count as one value.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	SpreadBy string `json:"spreadBy,omitempty"`
}

// Toleration matches taints, as a Pod's toleration does.
//
// +kubebuilder:validation:XValidation:rule="!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value.size() == 0",message="value must be empty when operator is Exists"
// +kubebuilder:validation:XValidation:rule="has(self.key) && self.key.size() > 0 || has(self.operator) && self.operator == 'Exists'",message="operator must be Exists when key is empty"
type Toleration struct {
	// Key of the taints; empty with operator Exists: all.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key,omitempty"`
	// Operator is Equal, also when absent: the value is that of the taint; or Exists: any
	// value is.
	// +optional
	Operator TolerationOperator `json:"operator,omitempty"`
	// Value of the taints.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`
	// Effect of the taints; any when absent.
	// +optional
	Effect TaintEffect `json:"effect,omitempty"`
}

// TolerationOperator relates the value of a toleration to that of a taint.
//
// +kubebuilder:validation:Enum=Equal;Exists
type TolerationOperator string

const (
	// TolerationEqual wants the same value.
	TolerationEqual TolerationOperator = "Equal"
	// TolerationExists takes any value.
	TolerationExists TolerationOperator = "Exists"
)

// Tolerates says whether it matches a taint.
func (t Toleration) Tolerates(of Taint) bool {
	return (t.Effect == "" || t.Effect == of.Effect) && (t.Key == "" || t.Key == of.Key) &&
		(t.Operator == TolerationExists || t.Value == of.Value)
}

// OnConflict is a policy for objects that Orrery did not create.
//
// +kubebuilder:validation:Enum=Fail;Adopt
type OnConflict string

const (
	// OnConflictFail leaves a foreign object alone.
	OnConflictFail OnConflict = "Fail"
	// OnConflictAdopt takes a foreign object over.
	OnConflictAdopt OnConflict = "Adopt"
)

// OnImmutable is a policy for changes of immutable fields.
//
// +kubebuilder:validation:Enum=Fail;Recreate
type OnImmutable string

const (
	// OnImmutableFail keeps the object as it is.
	OnImmutableFail OnImmutable = "Fail"
	// OnImmutableRecreate deletes the object and creates it anew.
	OnImmutableRecreate OnImmutable = "Recreate"
)

// OnRemove is a policy for objects that are no longer assigned to a location.
//
// +kubebuilder:validation:Enum=Delete;Orphan
type OnRemove string

const (
	// OnRemoveDelete deletes the object.
	OnRemoveDelete OnRemove = "Delete"
	// OnRemoveOrphan leaves the object, without Orrery's marks.
	OnRemoveOrphan OnRemove = "Orphan"
)

// OnDrift is a policy for objects that somebody at a location has changed.
//
// +kubebuilder:validation:Enum=Repair;Report
type OnDrift string

const (
	// OnDriftRepair undoes the change.
	OnDriftRepair OnDrift = "Repair"
	// OnDriftReport leaves the change and reports it.
	OnDriftReport OnDrift = "Report"
)

// LocationSelector selects locations by label, by name, or by both.
//
// +kubebuilder:validation:XValidation:rule="has(self.selector) || has(self.names)",message="give a selector, names, or both; an empty selector selects all locations"
type LocationSelector struct {
	// Selector selects by label; the empty selector selects all.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Names selects by name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=40
	Names []string `json:"names,omitempty"`
}

// ObjectTest matches objects: all fields that are given must match, a list by any
// of its entries. A cluster-scoped object never matches a test that names
// namespaces.
//
// +kubebuilder:validation:XValidation:rule="has(self.apiGroup) || has(self.resources) || has(self.namespaces) || has(self.namespaceSelectors) || has(self.names) || has(self.labelSelectors) || has(self.helmReleases)",message="an object test needs at least one of apiGroup, resources, namespaces, namespaceSelectors, names, labelSelectors, helmReleases"
type ObjectTest struct {
	// APIGroup of the object: "" is the core group, "*" any; any when absent.
	// +optional
	APIGroup *string `json:"apiGroup,omitempty"`
	// Resources are lower-case plural names, or "*".
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Resources []string `json:"resources,omitempty"`
	// Namespaces are names of namespaces.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	Namespaces []string `json:"namespaces,omitempty"`
	// NamespaceSelectors match the labels of the object's namespace.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors,omitempty"`
	// Names are names of objects.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	Names []string `json:"names,omitempty"`
	// LabelSelectors match the labels of the object.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	LabelSelectors []metav1.LabelSelector `json:"labelSelectors,omitempty"`
	// HelmReleases match what these releases of Helm made of their charts' templates, by
	// the annotations that Helm gives to it. The releases' own Secrets, CRDs of a chart's
	// crds/ and hooks have none, and are not matched: the CRDs come by followReferences of
	// the custom resources, hooks by a test of their own.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	HelmReleases []HelmRelease `json:"helmReleases,omitempty"`
}

// HelmRelease is a release of Helm.
type HelmRelease struct {
	// Namespace that it was installed in.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name of the release.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=53
	Name string `json:"name"`
}

// Downsync matches objects and says how they are treated.
type Downsync struct {
	ObjectTest `json:",inline"`
	// ReturnStatus says whether the status at the locations comes back to the object in the
	// space: None; Singleton: while exactly one location has it; Rollup: merged over all of
	// them, as the documentation says kind by kind. When absent: Rollup for kinds that have
	// one, else Singleton, unless somebody in the space writes that status. If several entries
	// and placements match an object, what any of them says counts more than what is not said:
	// Rollup beats Singleton, and Singleton None. A Rollup is of all locations but those of
	// placements that say None, a Singleton of those of placements that say Singleton.
	// +optional
	ReturnStatus ReturnStatus `json:"returnStatus,omitempty"`
	// CreateOnly creates the object where it is missing and never changes it there
	// afterwards. It is deleted like any other. If several entries and placements
	// match an object, all have to set it.
	// +optional
	CreateOnly bool `json:"createOnly,omitempty"`
	// FollowReferences has what the objects refer to follow them: the ConfigMaps, Secrets,
	// ServiceAccounts and PersistentVolumeClaims of their Pods, the Secrets of
	// ServiceAccounts and Ingresses, and the CustomResourceDefinition of a custom resource.
	// It is at exactly the locations of the objects that refer to it and treated as they
	// are, but its status does not come back; it leaves with the last of them, but claims
	// that no entry matches stay, with their data. Only kinds follow that who wrote the
	// entry may read: see status.follows.
	// +optional
	FollowReferences bool `json:"followReferences,omitempty"`
	// Associated has objects come back that the matched objects own at their locations,
	// directly or not, such as the ReplicaSets and Pods of a Deployment: of these kinds.
	// They are seen in the reports view, a bounded number for each object, those that are
	// not healthy and the newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Associated []AssociatedKinds `json:"associated,omitempty"`
}

// AssociatedKinds are kinds of objects that come back with what owns them.
type AssociatedKinds struct {
	// APIGroup of the kinds: "" or absent is the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`
	// Resources are lower-case plural names.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Resources []string `json:"resources"`
}

// Upsync matches objects that are born at a location: all fields that are given must match.
type Upsync struct {
	// APIGroup of the kinds: "" or absent is the core group, "*" any.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`
	// Resources are lower-case plural names.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Resources []string `json:"resources"`
	// Namespaces of the objects; all, and what is in none, when absent.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	Namespaces []string `json:"namespaces,omitempty"`
	// Names of the objects; all when absent.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	Names []string `json:"names,omitempty"`
}

// ReturnStatus is a policy for the status of placed objects.
//
// +kubebuilder:validation:Enum=None;Singleton;Rollup
type ReturnStatus string

const (
	// ReturnStatusNone leaves the status at the location.
	ReturnStatusNone ReturnStatus = "None"
	// ReturnStatusSingleton copies the status from the location while exactly one has
	// the object.
	ReturnStatusSingleton ReturnStatus = "Singleton"
	// ReturnStatusRollup merges the statuses of all locations.
	ReturnStatusRollup ReturnStatus = "Rollup"
)

// PlacementStatus sums up the state of what a placement places.
type PlacementStatus struct {
	// ObservedGeneration is the generation that the rest is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions has Accepted: the selectors are valid; Synced: every pair is applied,
	// and no removal waits; and, only while False, LocationsKnown: it names locations that do
	// not exist; WholeReleases: a Helm release is matched in part; StatusReturned: statuses are too large and left out.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Spaces that a placement in root with spec.spaces reaches.
	// +optional
	Spaces int64 `json:"spaces,omitempty"`
	// Locations that the placement selects. Of one that reaches other spaces, what
	// locations admit of these is not regarded.
	// +optional
	Locations int64 `json:"locations"`
	// Objects that the placement matches.
	// +optional
	Objects int64 `json:"objects"`
	Counts  `json:",inline"`
	// Errors shows up to ten pairs that failed or, if these are fewer, are degraded. Of Secrets it has no names, since all see it
	// who may read the Placement; nor of objects of other spaces.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Errors []PlacementError `json:"errors,omitempty"`
	// Follows says of the entries with followReferences which kinds follow: those that who
	// wrote the spec may read. The write that changes the spec notes it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Follows []Follows `json:"follows,omitempty"`
	// Prune counts objects that the placement no longer assigns and whose removal
	// waits for a confirmation, because it is more than locations allow at once.
	// +optional
	Prune *WaitingPrune `json:"prune,omitempty"`
	// Confirmed are removals that the placement's annotation confirms, by location,
	// until they are done.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5000
	Confirmed []ConfirmedPrune `json:"confirmed,omitempty"`
}

// Follows are the kinds that follow what one entry of downsync matches.
type Follows struct {
	// Entry is the index of the entry.
	Entry int32 `json:"entry"`
	// Resources are the plural names of the kinds.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Resources []string `json:"resources,omitempty"`
}

// WaitingPrune are removals at all locations that wait for a confirmation.
type WaitingPrune struct {
	// Pending counts them, including those that are confirmed but not done.
	Pending int64 `json:"pending"`
	// Locations counts the locations where they wait.
	Locations int64 `json:"locations"`
	// Digest names exactly those that are not confirmed, at all locations, for
	// "orrery placement confirm-prune --digest" and the annotation
	// orrery.dev/confirm-prune; empty if all are confirmed.
	// +optional
	Digest string `json:"digest,omitempty"`
}

// ConfirmedPrune are removals at one location that are confirmed.
type ConfirmedPrune struct {
	// Location is the location's name.
	Location string `json:"location"`
	// Space is that of the objects, if it is not the Placement's own.
	// +optional
	Space string `json:"space,omitempty"`
	// Digest names exactly the removals that waited there.
	Digest string `json:"digest"`
}

// PlacementError is one pair of object and location that failed.
type PlacementError struct {
	// Space is that of the object, if it is not the Placement's own.
	// +optional
	Space string `json:"space,omitempty"`
	// Object is GROUP/RESOURCE/[NAMESPACE/]NAME, or GROUP/RESOURCE alone.
	Object string `json:"object"`
	// Location is the location's name.
	Location string `json:"location"`
	// Reason is one word for programs.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// PlacementList is a list of placements.
//
// +kubebuilder:object:root=true
type PlacementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Placement `json:"items"`
}
