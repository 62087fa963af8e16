// Package kinds says what a kind of object is, and what a catalog of kinds: how the
// objects of a kind are held, encoded, selected, merged and shown, and what may
// be done with them where the catalog is served. The packages in this folder make
// kinds (built-in ones, and those that CRDs define), know which a space has, and
// serve their documents.
//
// It is a library of facts and pure functions: it must never read or write the
// log, and never act on what an object says.
package kinds

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/kinds/openapi"
	"orrery.dev/orrery/internal/kinds/travel"
)

// Kind is one served version of one resource. It is immutable and shared by all
// requests, and by all spaces that define the same.
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
	// HasStatus and Scale say which subresources there are.
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
	// Types is the schema that server-side apply merges by.
	Types managedfields.TypeConverter
	// Columns turn objects of the Hub version, or lists of them, into table rows.
	Columns rest.TableConvertor
	// Travels says what of a stored object goes to a location.
	Travels *travel.Filter
	// Custom is what the CRD says that defines the kind; nil for built-in ones.
	Custom Custom
	// SealedStatus says that a write to the status leaves the metadata as it is.
	SealedStatus bool

	// scopes has one scope per subresource; "" is the kind itself.
	scopes map[string]*handlers.RequestScope
}

// Custom is what a CRD says of one version of its resource. It is light, immutable,
// safe for concurrent use, and shared by all spaces whose CRDs say the same.
// What is heavy is compiled when it is first needed, and again if it had to go.
type Custom interface {
	// Hash names the content of the CRD: kinds of one version with equal hashes
	// treat objects in the same way.
	Hash() string
	// ID is another for every definition that was compiled, and never 0.
	ID() uint64
	// Warnings are what every request for the version is to be warned of.
	Warnings() []string
	// ReplicasPaths says where each version has the number that scale sets.
	ReplicasPaths() managedfields.ResourcePathMappings
	// Strategy is for requests to the resource itself, StatusStrategy for updates
	// of the status subresource, which the kind must have. Objects are
	// *unstructured.Unstructured.
	Strategy() Strategy
	StatusStrategy() Strategy
	// Today returns a stored object as it reads today, at the version that is
	// served: nil if that is what the bytes are. It decodes the object to find out.
	Today(value []byte) ([]byte, error)
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

// Travel returns what of a stored object goes to a location, as canonical JSON. It
// depends on the bytes and on the resource alone, so it is the same for all
// versions of a resource.
func (k *Kind) Travel(value []byte) ([]byte, error) { return k.Travels.Travel(value) }

// StoredAsServed says whether a stored value can be given to clients as it is,
// without being decoded and converted.
func (k *Kind) StoredAsServed() bool { return k.GVK.GroupVersion() == k.Storage }

// Scale says where a scale subresource finds its numbers (JSON paths).
type Scale struct {
	SpecReplicasPath   string
	StatusReplicasPath string
	LabelSelectorPath  string
}

// Selectable is a field by which objects of a kind may be selected.
type Selectable struct {
	// Label is what a field selector calls it.
	Label string
	// Path says where objects of the Hub version have it: JSON names, with dots between them.
	Path string
	// Else is where to look when there is nothing at Path; "" for nowhere.
	Else string
	// Absent is the value of an object that does not have it.
	Absent string
}
