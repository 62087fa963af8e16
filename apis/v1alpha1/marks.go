package v1alpha1

// Ownership marks: what an agent puts on each object that it creates at its
// location. The label LocationLabel finds the object; the annotations prove that it
// was created there, and name its source. They are not part of the rendered object,
// so its digest does not cover them.
const (
	// LocationLabel says for which location: NAME.UID8, the first eight
	// characters of the Location's UID.
	LocationLabel = "orrery.dev/location"
	// SpaceLabel names the space of the source.
	SpaceLabel = "orrery.dev/space"
	// SourceKindAnnotation, SourceNamespaceAnnotation, SourceNameAnnotation and
	// SourceUIDAnnotation identify the source object. Kind, namespace and name equal
	// those of the object that carries them, unless somebody copied the marks.
	SourceKindAnnotation      = "orrery.dev/source-kind"
	SourceNamespaceAnnotation = "orrery.dev/source-namespace"
	SourceNameAnnotation      = "orrery.dev/source-name"
	SourceUIDAnnotation       = "orrery.dev/source-uid"
	// OnRemoveAnnotation with value "Orphan" says that the object stays when it is no
	// longer assigned. It is for an agent that has lost its store.
	OnRemoveAnnotation = "orrery.dev/on-remove"
	// ServiceAccountAnnotation is in whose name the object was made, and is removed, as
	// NAMESPACE/NAME; absent: the agent's own. It is for an agent that has lost its store.
	ServiceAccountAnnotation = "orrery.dev/service-account"
	// LogAnnotation is the place in the hub's log at which the object was delivered:
	// MARKER.REVISION. By it an agent that has lost its store finds out whether the
	// hub's log continues the one that the object came from.
	LogAnnotation = "orrery.dev/log"
	// ImpliedAnnotation is on Namespaces that an agent created only to hold other
	// objects; its value is that of LocationLabel.
	ImpliedAnnotation = "orrery.dev/implied"
	// TakenFromAnnotation lists, separated by commas, the locations as whose the object was
	// marked before its location took it over from them. By it an agent that still works
	// for one of these finds out that it must not.
	TakenFromAnnotation = "orrery.dev/taken-from"
)

// RemovalFinalizer keeps an object that is being deleted until its locations have confirmed
// that it is gone. It is set on deletion if a Placement of the object waits for that.
const RemovalFinalizer = "orrery.dev/removal"

// Annotations that allow a deletion at a location. They count only where they are set at the
// location, by another field manager than Orrery's: they never travel from a space.
const (
	// CascadeAnnotation with value "true" on a Namespace or CRD lets a location
	// delete it even if it holds objects that Orrery did not create.
	CascadeAnnotation = "orrery.dev/cascade"
	// RecreateAnnotation with value "true" on an object whose deletion deletes stored data (a
	// PersistentVolumeClaim, a PersistentVolume, a StatefulSet that deletes its claims) lets a
	// location delete it to create it anew, if its policy is to do that.
	RecreateAnnotation = "orrery.dev/recreate"
)

const (
	// ExpandAnnotation with value "true" says that the texts of an object have templates,
	// which are expanded for each location.
	ExpandAnnotation = "orrery.dev/expand"
)

// What the view of reports adds to the objects that it shows, besides the names of their
// space and location, and what they are called there (the annotations of the source).
const (
	// StateLabel is how far an object is at its location, and HealthLabel how it does there.
	StateLabel  = "orrery.dev/state"
	HealthLabel = "orrery.dev/health"
	// OriginAnnotation says whether the object was placed there, born there, or is owned
	// by what was placed.
	OriginAnnotation = "orrery.dev/origin"
	// ReasonAnnotation and MessageAnnotation say why its state is what it is, and
	// SinceAnnotation since when.
	ReasonAnnotation  = "orrery.dev/reason"
	MessageAnnotation = "orrery.dev/message"
	SinceAnnotation   = "orrery.dev/since"
	// HealthNoteAnnotation says why it is not healthy.
	HealthNoteAnnotation = "orrery.dev/health-note"
	// OwnerAnnotation is the placed object that an owned one belongs to, as
	// GROUP/RESOURCE/[NAMESPACE/]NAME.
	OwnerAnnotation = "orrery.dev/owner"
	// GenerationAnnotation is the generation of the object in its space that the report is
	// about.
	GenerationAnnotation = "orrery.dev/reported-generation"
	// StaleAnnotation is "true" while the location is away. It is of the time of the read:
	// watches are not told when it changes.
	StaleAnnotation = "orrery.dev/stale"
)
