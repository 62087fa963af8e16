package v1alpha1

// Ownership metadata: the label and the annotations that an agent sets on each object that it
// creates at its location. LocationLabel finds the object. The annotations prove that the agent
// created it there, and name its source. They are not part of the rendered object, so its digest
// does not include them.
const (
	// LocationLabel identifies the location: NAME.UID8, with the first eight characters of the
	// Location's UID.
	LocationLabel = "orrery.dev/location"
	// SpaceLabel names the space of the source.
	SpaceLabel = "orrery.dev/space"
	// SourceKindAnnotation, SourceNamespaceAnnotation, SourceNameAnnotation and SourceUIDAnnotation
	// identify the source object. Kind, namespace and name equal those of the annotated object,
	// unless a user copied the annotations to another object.
	SourceKindAnnotation      = "orrery.dev/source-kind"
	SourceNamespaceAnnotation = "orrery.dev/source-namespace"
	SourceNameAnnotation      = "orrery.dev/source-name"
	SourceUIDAnnotation       = "orrery.dev/source-uid"
	// OnRemoveAnnotation with the value "Orphan" means that the object stays when it is no longer
	// assigned. An agent that has lost its store reads it.
	OnRemoveAnnotation = "orrery.dev/on-remove"
	// ServiceAccountAnnotation is the ServiceAccount, as NAMESPACE/NAME, that the agent
	// impersonates to change and remove the object. It is absent if the agent uses its own
	// identity. An agent that has lost its store reads it.
	ServiceAccountAnnotation = "orrery.dev/service-account"
	// LogAnnotation is the position in the hub's log at which the object was delivered:
	// EPOCH.REVISION. An agent that has lost its store uses it to find out whether the hub's log
	// continues the log that the object came from.
	LogAnnotation = "orrery.dev/log"
	// ImpliedAnnotation is set on Namespaces that an agent created only to hold other objects. Its
	// value is that of LocationLabel.
	ImpliedAnnotation = "orrery.dev/implied"
	// TakenFromAnnotation lists, separated by commas, the previous values of LocationLabel of an
	// object whose location took it over. An agent that still works for one of these locations
	// reads it and stops.
	TakenFromAnnotation = "orrery.dev/taken-from"
)

// RemovalFinalizer keeps an object that is being deleted until its locations have confirmed its
// removal. The hub sets it on deletion if a Placement of the object has waitForRemoval.
const RemovalFinalizer = "orrery.dev/removal"

// ContentFinalizer keeps a Space, Namespace or APIBinding that is being deleted until its content is gone.
const ContentFinalizer = "orrery.dev/content"

// Annotations that allow a deletion at a location. They apply only if another field manager than
// Orrery's set them at the location; Orrery never sends them from a space.
const (
	// CascadeAnnotation with the value "true" on a Namespace or CustomResourceDefinition lets a
	// location delete it even if it holds objects that Orrery did not create.
	CascadeAnnotation = "orrery.dev/cascade"
	// RecreateAnnotation with the value "true" lets a location delete and recreate an object whose
	// deletion loses stored data, if its policy is to recreate it. Such objects are
	// PersistentVolumeClaims, PersistentVolumes, and StatefulSets that delete their claims.
	RecreateAnnotation = "orrery.dev/recreate"
)

const (
	// ExpandAnnotation with the value "true" means that strings in the object contain templates,
	// which the hub expands for each location.
	ExpandAnnotation = "orrery.dev/expand"
)

// Annotations and labels that the reports view adds to objects, besides space, location and the
// source annotations.
const (
	// StateLabel is the state of the object at its location, and HealthLabel its health there.
	StateLabel  = "orrery.dev/state"
	HealthLabel = "orrery.dev/health"
	// OriginAnnotation reports where the object comes from: Orrery placed it there, it was created
	// there, or a placed object owns it.
	OriginAnnotation = "orrery.dev/origin"
	// ReasonAnnotation and MessageAnnotation explain the state, and SinceAnnotation is the time at
	// which it began.
	ReasonAnnotation  = "orrery.dev/reason"
	MessageAnnotation = "orrery.dev/message"
	SinceAnnotation   = "orrery.dev/since"
	// HealthNoteAnnotation explains why the object is not healthy.
	HealthNoteAnnotation = "orrery.dev/health-note"
	// OwnerAnnotation is the placed object that owns this one, as GROUP/RESOURCE/[NAMESPACE/]NAME.
	OwnerAnnotation = "orrery.dev/owner"
	// GenerationAnnotation is the generation of the object in its space that the report describes.
	GenerationAnnotation = "orrery.dev/reported-generation"
	// StaleAnnotation is "true" while the location is disconnected. It is computed at each read;
	// watches receive no event when it changes.
	StaleAnnotation = "orrery.dev/stale"
)
