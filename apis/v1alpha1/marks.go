package v1alpha1

// The marks of what an agent makes at its location. The label LocationLabel
// finds it; the annotations prove that it was made there, and name its source.
// None of them belongs to what is made, so none is part of its digest.
const (
	// LocationLabel says for which location: NAME.UID8, the first eight
	// characters of the Location's UID.
	LocationLabel = "orrery.dev/location"
	// SpaceLabel names the space of the source.
	SpaceLabel = "orrery.dev/space"
	// SourceKindAnnotation, SourceNamespaceAnnotation, SourceNameAnnotation and
	// SourceUIDAnnotation are those of the source object. The first three are
	// the object's own, too: where they are not, somebody copied the marks.
	SourceKindAnnotation      = "orrery.dev/source-kind"
	SourceNamespaceAnnotation = "orrery.dev/source-namespace"
	SourceNameAnnotation      = "orrery.dev/source-name"
	SourceUIDAnnotation       = "orrery.dev/source-uid"
	// OnRemoveAnnotation with value "Orphan" is on what was made to stay when it is no
	// longer assigned, for an agent that knows nothing else of it any more.
	OnRemoveAnnotation = "orrery.dev/on-remove"
	// LogAnnotation says by what the object was written: MARKER.REVISION, the place in
	// the hub's log at which it was delivered. By it an agent that has lost its store
	// finds out whether the hub's log continues that one.
	LogAnnotation = "orrery.dev/log"
	// ImpliedAnnotation is on Namespaces that an agent made for what is in them
	// only; its value is as that of LocationLabel.
	ImpliedAnnotation = "orrery.dev/implied"
)

const (
	// CascadeAnnotation with value "true" on a Namespace or CRD has a location
	// delete it even if there is something in it that Orrery did not make.
	CascadeAnnotation = "orrery.dev/cascade"
	// ExpandAnnotation with value "true" says that an object is a template.
	ExpandAnnotation = "orrery.dev/expand"
)
