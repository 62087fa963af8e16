// Package kinds defines kinds and catalogs of kinds. A kind determines how its objects are
// represented, encoded, selected, merged and printed; a catalog determines the operations on them.
// The packages below build the kinds (built-in ones, and those that CRDs define), determine the
// kinds of each space, and serve their documents.
//
// It consists of constants and pure functions: it must never read or write the log, and never act
// on the content of an object.
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
	// Hub is the version of objects in memory: New makes it, and decoding a request or a stored
	// value returns it.
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
	// HasStatus reports whether the kind has the subresource status. It has the subresource scale
	// if Scale is not nil.
	HasStatus bool
	Scale     *Scale
	// Generation reports whether changes of the spec increment metadata.generation.
	Generation bool
	// Selectable lists the fields for field selectors besides metadata.name and metadata.namespace.
	Selectable []Selectable

	// New and NewList make empty objects of the Hub version.
	New     func() runtime.Object
	NewList func() runtime.Object
	// StorageCodec encodes objects as the JSON of the log, and decodes it.
	StorageCodec runtime.Codec
	// Protobuf makes the protobuf of stored objects from their JSON, with the same result as decoding
	// and encoding them; nil for kinds that are converted, or have no protobuf.
	Protobuf *protobuf.Type
	// Created finds the fields that the creator of a stored object owns; nil for kinds that are
	// converted, and those of CRDs.
	Created *fieldset.Created
	// Types is the schema by which server-side apply merges.
	Types managedfields.TypeConverter
	// Columns makes table rows of objects of the Hub version, or of lists of them.
	Columns rest.TableConvertor
	// Rows, if not nil, makes a table of a single object, such as a Summary; ok is false if the
	// object has no table yet.
	Rows func(runtime.Object) (made *metav1.Table, ok bool)
	// Travels selects the fields of a stored object that are sent to locations.
	Travels *downsync.Filter
	// Custom is the definition by a CRD; nil for built-in kinds.
	Custom Custom
	// Unknown reports whether the kind has no definition, so that only its names are known.
	Unknown bool
	// SealedStatus reports whether writes to the status leave the metadata unchanged.
	SealedStatus bool

	// scopes contains one scope per subresource; "" is the kind itself.
	scopes map[string]*handlers.RequestScope
}

// Custom is the definition of one version of a resource by a CRD. It is small, immutable, safe for
// concurrent use, and shared by all spaces whose CRDs are equal. Large parts are compiled when they
// are first needed, and again after an eviction.
type Custom interface {
	// Hash identifies the content of the CRD: kinds of one version with equal hashes treat objects
	// in the same way.
	Hash() string
	// ID is different for every definition that was compiled, and never 0.
	ID() uint64
	// Warnings are the warnings for every request for the version.
	Warnings() []string
	// ReplicasPaths returns the path of the replica count, which scale sets, in each version.
	ReplicasPaths() managedfields.ResourcePathMappings
	// Strategy returns the strategy of requests to the resource itself, StatusStrategy of updates of
	// the status subresource, which the kind must have. Objects are *unstructured.Unstructured.
	Strategy() Strategy
	StatusStrategy() Strategy
	// Today returns a stored object by the current definition, in the served version; nil if the
	// stored bytes are equal to that. It decodes the object.
	Today(value []byte) ([]byte, error)
	// CheckDefaults returns an error for the write of a decoded object if its defaults were omitted
	// because the object would become too large.
	CheckDefaults(runtime.Object) error
	// OpenAPI returns the documents of the version.
	OpenAPI() *openapi.Custom
}

// Strategy defines how objects are created, updated and deleted. It may be kept for as long as the
// kind.
type Strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
	GetAttrs(runtime.Object) (labels.Set, fields.Set, error)
}

// Travel returns the fields of a stored object that are sent to locations, as canonical JSON. They
// depend only on the bytes and the resource, so they are the same for all versions.
func (k *Kind) Travel(value []byte) ([]byte, error) { return k.Travels.Travel(value) }

// StoredAsServed reports whether a stored value can be served without decoding and conversion.
func (k *Kind) StoredAsServed() bool { return k.GVK.GroupVersion() == k.Storage }

// Scale contains the JSON paths of the values of a scale subresource.
type Scale struct {
	SpecReplicasPath   string
	StatusReplicasPath string
	LabelSelectorPath  string
}

// Selectable is a field by which objects of a kind may be selected.
type Selectable struct {
	// Label is its name in field selectors.
	Label string
	// Path is its path in objects of the Hub version: JSON names, separated by dots.
	Path string
	// Else is the path to use if there is no value at Path; "" for none.
	Else string
	// Absent is the value of the field in objects that do not contain it.
	Absent string
}
