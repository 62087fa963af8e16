package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Placement assigns objects of its space to locations. A Placement in the space root can assign
// objects of other spaces.
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

	// Spec defines which objects are assigned to which locations.
	Spec PlacementSpec `json:"spec"`
	// Status summarizes the state of the placed objects.
	// +optional
	Status PlacementStatus `json:"status,omitempty,omitzero"`
}

// PlacementSpec defines which objects are assigned to which locations.
type PlacementSpec struct {
	// Suspend freezes objects that only suspended Placements assign to a location: nothing is
	// created or changed there. Objects that the Placement no longer matches are still removed.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// Spaces selects the spaces whose objects a Placement in the space root assigns, instead of
	// those of root. It never selects root. The user that writes it needs the right to read the
	// matched objects in all spaces. When absent, the Placement applies to its own space.
	// +optional
	Spaces *SpaceSelector `json:"spaces,omitempty"`
	// Locations selects the locations that get the objects, by any entry.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Locations []LocationSelector `json:"locations,omitempty"`
	// Pick limits the number of selected locations; all when absent.
	// +optional
	Pick *Pick `json:"pick,omitempty"`
	// Tolerations allow objects to be assigned to locations with matching taints.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []Toleration `json:"tolerations,omitempty"`
	// Downsync selects the objects of the space that are assigned: those that match any entry.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Downsync []Downsync `json:"downsync,omitempty"`
	// Upsync selects objects that were created at the locations, by any entry. The hub shows them
	// in the reports view of each space that selects them, but never in the space. An object of the
	// space that an entry matches is not placed at these locations. If it was placed before, it
	// stays there as an upsynced object.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Upsync []Upsync `json:"upsync,omitempty"`
	// OnConflict is the policy for an object of the same identity that Orrery did not create. Fail
	// leaves it unchanged and reports it. Adopt applies over it; from then on Orrery manages and
	// removes it. Objects that a controller or another location owns are never adopted. If several
	// Placements assign an object to a location, Adopt wins.
	// +optional
	// +kubebuilder:default=Fail
	OnConflict OnConflict `json:"onConflict,omitempty"`
	// OnImmutable is the policy for a change that the location's API server refuses because a field
	// is immutable. Fail keeps the object and reports it. Recreate deletes and recreates it, which
	// counts as a removal. Recreate does not apply to refusals by policies or webhooks, nor to
	// Namespaces and CustomResourceDefinitions that are not empty. PersistentVolumeClaims,
	// PersistentVolumes, and StatefulSets that delete their claims also need the annotation
	// orrery.dev/recreate: "true" at the location. Of several Placements, Recreate wins.
	// +optional
	// +kubebuilder:default=Fail
	OnImmutable OnImmutable `json:"onImmutable,omitempty"`
	// OnRemove is the policy for an object that is no longer assigned to a location. Delete deletes
	// it. Orphan keeps it without Orrery's ownership metadata. If several Placements assigned
	// the object, the one whose assignment ended last decides. If several ended together, Orphan wins.
	// AfterFinalizers is Delete, but an object that is deleted in the space stays assigned until its
	// last finalizer other than orrery.dev/removal is removed. One of several Placements is enough.
	// +optional
	// +kubebuilder:default=Delete
	OnRemove OnRemove `json:"onRemove,omitempty"`
	// OnDrift is the policy for changes that others make at a location to fields that Orrery
	// applied. Repair reverts them. Report reports them, and keeps them until the object in the
	// space changes. An object that is deleted at a location is recreated in both cases. Of several
	// Placements, Repair wins.
	// +optional
	// +kubebuilder:default=Repair
	OnDrift OnDrift `json:"onDrift,omitempty"`
	// WaitForRemoval keeps an object that is deleted in the space, by the finalizer
	// orrery.dev/removal. The hub removes the finalizer when each location of the object has
	// confirmed the removal (or kept it, with onRemove: Orphan), or is deleted. Clients such as
	// kubectl delete thus wait for all locations. One of several Placements is enough. Deleting a
	// space does not wait.
	// +optional
	WaitForRemoval bool `json:"waitForRemoval,omitempty"`
}

// Pick takes some of the locations that a Placement selects. The choice depends only on the
// identities of the Placement and the locations. A change of the selection moves as few objects as
// possible, and a lost connection moves none.
type Pick struct {
	// Count is the number of locations to take, if there are as many.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Count int32 `json:"count"`
	// SpreadBy is the key of a location label. The locations are spread evenly over the values of
	// the label, as far as possible. Locations without the label count as one value.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	SpreadBy string `json:"spreadBy,omitempty"`
}

// Toleration matches taints like a toleration of a Pod.
//
// +kubebuilder:validation:XValidation:rule="!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value.size() == 0",message="value must be empty when operator is Exists"
// +kubebuilder:validation:XValidation:rule="has(self.key) && self.key.size() > 0 || has(self.operator) && self.operator == 'Exists'",message="operator must be Exists when key is empty"
type Toleration struct {
	// Key is the key of the taints. An empty key with operator Exists matches all taints.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key,omitempty"`
	// Operator is Equal (the default) or Exists. Equal requires the value of the taint; Exists
	// matches any value.
	// +optional
	Operator TolerationOperator `json:"operator,omitempty"`
	// Value is the value of the taints.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`
	// Effect is the effect of the taints; any effect when absent.
	// +optional
	Effect TaintEffect `json:"effect,omitempty"`
}

// TolerationOperator compares the value of a toleration with that of a taint.
//
// +kubebuilder:validation:Enum=Equal;Exists
type TolerationOperator string

const (
	// TolerationEqual requires the same value.
	TolerationEqual TolerationOperator = "Equal"
	// TolerationExists matches any value.
	TolerationExists TolerationOperator = "Exists"
)

// Tolerates reports whether t matches taint.
func (t Toleration) Tolerates(taint Taint) bool {
	return (t.Effect == "" || t.Effect == taint.Effect) && (t.Key == "" || t.Key == taint.Key) &&
		(t.Operator == TolerationExists || t.Value == taint.Value)
}

// OnConflict is a policy for existing objects that Orrery did not create.
//
// +kubebuilder:validation:Enum=Fail;Adopt
type OnConflict string

const (
	// OnConflictFail leaves the existing object unchanged.
	OnConflictFail OnConflict = "Fail"
	// OnConflictAdopt takes the existing object over.
	OnConflictAdopt OnConflict = "Adopt"
)

// OnImmutable is a policy for changes of immutable fields.
//
// +kubebuilder:validation:Enum=Fail;Recreate
type OnImmutable string

const (
	// OnImmutableFail keeps the object as it is.
	OnImmutableFail OnImmutable = "Fail"
	// OnImmutableRecreate deletes and recreates the object.
	OnImmutableRecreate OnImmutable = "Recreate"
)

// OnRemove is a policy for objects that are no longer assigned to a location.
//
// +kubebuilder:validation:Enum=Delete;Orphan;AfterFinalizers
type OnRemove string

const (
	// OnRemoveDelete deletes the object.
	OnRemoveDelete OnRemove = "Delete"
	// OnRemoveOrphan keeps the object without Orrery's ownership metadata.
	OnRemoveOrphan OnRemove = "Orphan"
	// OnRemoveAfterFinalizers deletes the object, but not while its finalizers keep it in the space.
	OnRemoveAfterFinalizers OnRemove = "AfterFinalizers"
)

// OnDrift is a policy for objects that others have changed at a location.
//
// +kubebuilder:validation:Enum=Repair;Report
type OnDrift string

const (
	// OnDriftRepair reverts the change.
	OnDriftRepair OnDrift = "Repair"
	// OnDriftReport reports the change and keeps it.
	OnDriftReport OnDrift = "Report"
)

// LocationSelector selects locations by label, by name, or by both.
//
// +kubebuilder:validation:XValidation:rule="has(self.selector) || has(self.names)",message="give a selector, names, or both; an empty selector selects all locations"
type LocationSelector struct {
	// Selector selects by label; the empty selector selects all locations.
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

// ObjectTest matches objects. All given fields must match; a list matches by any of its entries. A
// cluster-scoped object never matches a test with namespaces.
//
// +kubebuilder:validation:XValidation:rule="has(self.apiGroup) || has(self.resources) || has(self.namespaces) || has(self.namespaceSelectors) || has(self.names) || has(self.labelSelectors) || has(self.helmReleases)",message="an object test needs at least one of apiGroup, resources, namespaces, namespaceSelectors, names, labelSelectors, helmReleases"
type ObjectTest struct {
	// APIGroup is the API group of the object: "" is the core group, "*" any; any when absent.
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
	// HelmReleases match objects that these Helm releases created from the templates of their
	// charts, by the annotations of Helm. The Secrets of releases, hooks, and CRDs in the crds/
	// folder of a chart have no such annotations, and do not match. To place such CRDs, use
	// followReferences on the custom resources; to place hooks, use another test.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	HelmReleases []HelmRelease `json:"helmReleases,omitempty"`
}

// HelmRelease identifies a Helm release.
type HelmRelease struct {
	// Namespace is the namespace of the release.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name is the name of the release.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=53
	Name string `json:"name"`
}

// Downsync matches objects and defines their policies.
type Downsync struct {
	ObjectTest `json:",inline"`
	// ReturnStatus is the policy for copying status from the locations to the object in the space.
	// None: no status. Singleton: the status of the location, while exactly one has the object.
	// Rollup: the merged statuses of all locations, by rules that the documentation lists for each
	// kind. The default is Rollup for kinds that have such rules, and otherwise Singleton, unless a
	// client in the space writes the status. If several entries and Placements match an object,
	// explicit values override the default; Rollup wins over Singleton, and Singleton over None. A
	// Rollup excludes locations of Placements with None; a Singleton includes only locations of
	// Placements with Singleton.
	// +optional
	ReturnStatus ReturnStatus `json:"returnStatus,omitempty"`
	// CreateOnly creates a missing object, and never changes it afterwards. It is deleted like any
	// other object. If several entries and Placements match an object, all must set it.
	// +optional
	CreateOnly bool `json:"createOnly,omitempty"`
	// FollowReferences also places the objects that matched objects refer to: ConfigMaps, Secrets,
	// ServiceAccounts and PersistentVolumeClaims of Pods, Secrets of ServiceAccounts and Ingresses,
	// and the CustomResourceDefinition of a custom resource. They have the locations and policies
	// of the objects that refer to them, but their status is not returned. They are removed with
	// the last of these objects, except for PersistentVolumeClaims that no entry matches, which
	// keep their data. Only kinds that the writer of the entry may read are placed: see
	// status.follows.
	// +optional
	FollowReferences bool `json:"followReferences,omitempty"`
	// Associated selects kinds whose objects the locations report if matched objects own them,
	// directly or not, such as the ReplicaSets and Pods of a Deployment. The reports view shows a
	// limited number for each matched object, unhealthy and newest objects first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Associated []AssociatedKinds `json:"associated,omitempty"`
}

// AssociatedKinds selects kinds of objects that locations report with their owners.
type AssociatedKinds struct {
	// APIGroup is the API group of the kinds: "" or absent is the core group.
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

// Upsync matches objects that were created at a location. All given fields must match.
type Upsync struct {
	// APIGroup is the API group of the kinds: "" or absent is the core group, "*" any.
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
	// Namespaces are the namespaces of the objects. When absent, objects match in all namespaces
	// and cluster-scoped.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	Namespaces []string `json:"namespaces,omitempty"`
	// Names are the names of the objects; all when absent.
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
	// ReturnStatusNone does not copy the status.
	ReturnStatusNone ReturnStatus = "None"
	// ReturnStatusSingleton copies the status of the location while exactly one has the object.
	ReturnStatusSingleton ReturnStatus = "Singleton"
	// ReturnStatusRollup merges the statuses of all locations.
	ReturnStatusRollup ReturnStatus = "Rollup"
)

// PlacementStatus summarizes the state of the objects that a Placement assigns.
type PlacementStatus struct {
	// ObservedGeneration is the generation that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Accepted, Synced, Ready, LocationsKnown, WholeReleases and StatusReturned.
	// Accepted: the selectors are valid. Synced: every pair is applied, and no removal is pending.
	// Ready: all other conditions are True, and every pair is healthy. The others are present only
	// while False. LocationsKnown lists locations that do not exist. WholeReleases: a Helm release
	// matches only partly. StatusReturned: statuses are too large to return.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Spaces is the number of spaces that a Placement in root selects by spec.spaces.
	// +optional
	Spaces int64 `json:"spaces,omitempty"`
	// Locations is the number of selected locations. For a Placement in root with spec.spaces, it
	// ignores what locations admit.
	// +optional
	Locations int64 `json:"locations"`
	// Objects is the number of matched objects.
	// +optional
	Objects int64 `json:"objects"`
	Counts  `json:",inline"`
	// Errors lists up to ten failed pairs and, if there is room, degraded pairs. Names of Secrets
	// and of objects of other spaces are omitted, since all readers of the Placement can read them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Errors []PlacementError `json:"errors,omitempty"`
	// Follows lists, for entries with followReferences, the kinds that are also placed: those that
	// the writer of the spec may read. It is set when the spec is written.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Follows []Follows `json:"follows,omitempty"`
	// Prune counts objects that the Placement no longer assigns, and whose removal waits for a
	// confirmation because it exceeds the limits of locations.
	// +optional
	Prune *WaitingPrune `json:"prune,omitempty"`
	// Confirmed lists, by location, removals that the annotation on the Placement confirms and that
	// are not yet done.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5000
	Confirmed []ConfirmedPrune `json:"confirmed,omitempty"`
}

// Follows lists the kinds that followReferences of one entry also places.
type Follows struct {
	// Entry is the index of the entry in spec.downsync.
	Entry int32 `json:"entry"`
	// Resources are the plural names of the kinds.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Resources []string `json:"resources,omitempty"`
}

// WaitingPrune counts removals at all locations that wait for a confirmation.
type WaitingPrune struct {
	// Pending is the number of removals, including those that are confirmed but not done.
	Pending int64 `json:"pending"`
	// Locations is the number of locations with pending removals.
	Locations int64 `json:"locations"`
	// Digest identifies exactly the unconfirmed removals at all locations, for "orrery placement
	// confirm-prune --digest" and the annotation orrery.dev/confirm-prune. It is empty if all are
	// confirmed.
	// +optional
	Digest string `json:"digest,omitempty"`
}

// ConfirmedPrune describes confirmed removals at one location.
type ConfirmedPrune struct {
	// Location is the location's name.
	Location string `json:"location"`
	// Space is the space of the objects, if it is not the Placement's own.
	// +optional
	Space string `json:"space,omitempty"`
	// Digest identifies exactly the removals that were pending there.
	Digest string `json:"digest"`
}

// PlacementError is a pair of object and location that failed.
type PlacementError struct {
	// Space is the space of the object, if it is not the Placement's own.
	// +optional
	Space string `json:"space,omitempty"`
	// Object is GROUP/RESOURCE/[NAMESPACE/]NAME, or GROUP/RESOURCE alone.
	Object string `json:"object"`
	// Location is the location's name.
	Location string `json:"location"`
	// Reason is a machine-readable word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is a text for users.
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
