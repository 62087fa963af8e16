// Package kinds knows what kinds of objects there are: the built-in ones, which
// every space has, Orrery's own, and those that a space's CRDs define. For each
// it has the codecs, columns, schemas and merge rules that handlers need, and
// for each space the discovery and OpenAPI documents.
//
// It is a library of facts and pure functions: it must never read or write the
// log, and never act on what an object says.
package kinds

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/key"
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
	// Custom has the compiled schema of a kind that a CRD defines; nil for built-ins.
	Custom *Custom

	// sealedStatus says that a write to the status leaves the metadata as it is.
	sealedStatus bool
	// scopes has one scope per subresource; "" is the kind itself.
	scopes map[string]*handlers.RequestScope
	// travels leaves out what is not to travel; nil for kinds without a Go type,
	// which need nothing of their own.
	travels *filter
}

// StoredAsServed says whether a stored value can be given to clients as it is,
// without being decoded and converted.
func (k *Kind) StoredAsServed() bool { return k.GVK.GroupVersion() == k.Storage }

// Scale says where a scale subresource finds its numbers (JSON paths).
type Scale struct {
	SpecReplicasPath   string
	StatusReplicasPath string
	LabelSelectorPath  string
}
