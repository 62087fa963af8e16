// Package kinds defines what a kind is, and a catalog of kinds: how the objects of a kind
// are represented, encoded, selected, merged and shown, and what may be done with them where
// the catalog is served. The packages below make kinds (built-in ones, and those that CRDs
// define), know which of them a space has, and serve their documents.
//
// It is a library of facts and pure functions: it must never read or write the
// log, and never act on what an object says.
package kinds

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/hub/kinds/downsync"
	"orrery.dev/orrery/internal/hub/kinds/openapi"
	"orrery.dev/orrery/internal/hub/kinds/protobuf"
	"orrery.dev/orrery/internal/lib/fieldset"
	"orrery.dev/orrery/internal/protocol/key"
)

// Kind is one served version of one resource. It is immutable, and shared by all requests
// and by all spaces with the same definition.
type Kind struct {
	// GVK is the kind as served; objects of it are stored at Storage.
	GVK     schema.GroupVersionKind
	Storage schema.GroupVersion
	// Hub is the version in which handlers and registries hold objects in
	// memory: what New makes, and what decoding a request or a stored value gives.
	Hub schema.GroupVersion
	// Resource is the plural name with its group, as it is in keys. For a kind
	// that is served from another group's storage (Event) this is the stored one.
	Resource key.Resource
	// GVR is the resource as served.
	GVR        schema.GroupVersionResource
	Singular   string
	ListKind   string
	Namespaced bool
	ShortNames []string
	Categories []string
	// HasStatus says that there is a subresource status; Scale, if not nil, that there is
	// one of scale.
	HasStatus bool
	Scale     *Scale
	// Generation says that spec changes raise metadata.generation.
	Generation bool
	// Selectable is what field selectors may name besides metadata.name and
	// metadata.namespace.
	Selectable []Selectable

	// New and NewList make empty objects of the Hub version.
	New     func() runtime.Object
	NewList func() runtime.Object
	// StorageCodec turns objects into the log's JSON and back.
	StorageCodec runtime.Codec
	// Protobuf makes the protobuf of stored objects from their JSON, where that is the same as
	// decoding and encoding them; nil for kinds that are converted, or that have none.
	Protobuf *protobuf.Type
	// Created finds the fields that the creator of a stored object owns; nil for kinds that are
	// converted, and those of CRDs.
	Created *fieldset.Created
	// Types is the schema that server-side apply merges by.
	Types managedfields.TypeConverter
	// Columns turn objects of the Hub version, or lists of them, into table rows.
	Columns rest.TableConvertor
	// Rows, if not nil, makes the table that a single object is; ok is false if it is none yet.
	Rows func(runtime.Object) (made *metav1.Table, ok bool)
	// Travels says what of a stored object goes to a location.
	Travels *downsync.Filter
	// Custom is the definition by a CRD; nil for built-in kinds.
	Custom Custom
	// Unknown says that nobody defines it: each of its objects says for itself of which kind it is.
	Unknown bool
	// SealedStatus says that a write to the status leaves the metadata as it is.
	SealedStatus bool

	// scopes has one scope per subresource; "" is the kind itself.
	scopes map[string]*handlers.RequestScope
}

// Custom is the definition of one version of a resource by a CRD. It is light, immutable,
// safe for concurrent use, and shared by all spaces whose CRDs say the same. Heavy parts are
// compiled when they are first needed, and again after they were evicted.
type Custom interface {
	// Hash names the content of the CRD: kinds of one version with equal hashes
	// treat objects in the same way.
	Hash() string
	// ID is different for every definition that was compiled, and never 0.
	ID() uint64
	// Warnings are the warnings for every request for the version.
	Warnings() []string
	// ReplicasPaths says where each version has the number that scale sets.
	ReplicasPaths() managedfields.ResourcePathMappings
	// Strategy is for requests to the resource itself, StatusStrategy for updates
	// of the status subresource, which the kind must have. Objects are
	// *unstructured.Unstructured.
	Strategy() Strategy
	StatusStrategy() Strategy
	// Today returns a stored object as the current definition reads it, in the served
	// version; nil if the bytes are that already. It decodes the object to find out.
	Today(value []byte) ([]byte, error)
	// CheckDefaults returns the error of a write of an object, which is decoded, whose defaults
	// were left out since they would make it too large; nil: it has them.
	CheckDefaults(runtime.Object) error
	// OpenAPI is the documents of the version.
	OpenAPI() *openapi.Custom
}

// Strategy is how objects are created, updated and deleted. It may be kept for as
// long as the kind.
type Strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
	GetAttrs(runtime.Object) (labels.Set, fields.Set, error)
}

// Travel returns the part of a stored object that goes to a location, as canonical JSON. It
// depends only on the bytes and the resource, so it is the same for all versions.
func (k *Kind) Travel(value []byte) ([]byte, error) { return k.Travels.Travel(value) }

// StoredAsServed says whether a stored value can be served as it is, without being decoded
// and converted.
func (k *Kind) StoredAsServed() bool { return k.GVK.GroupVersion() == k.Storage }

// Scale says where a scale subresource finds its numbers (JSON paths).
type Scale struct {
	SpecReplicasPath   string
	StatusReplicasPath string
	LabelSelectorPath  string
}

// Selectable is a field by which objects of a kind may be selected.
type Selectable struct {
	// Label is its name in field selectors.
	Label string
	// Path is its place in objects of the Hub version: JSON names, with dots between them.
	Path string
	// Else is where to look if there is nothing at Path; "" for nowhere.
	Else string
	// Absent is its value if an object does not have it.
	Absent string
}
