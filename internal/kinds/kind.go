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

	// New and NewList make empty objects of the served version.
	New     func() runtime.Object
	NewList func() runtime.Object
	// StorageCodec turns objects into the log's JSON and back.
	StorageCodec runtime.Codec
	// Types is the schema that server-side apply merges by.
	Types managedfields.TypeConverter
	// Columns turn objects into table rows.
	Columns rest.TableConvertor
	// Custom has the compiled schema of a kind that a CRD defines; nil for built-ins.
	Custom *Custom

	// scope is copied for every verb and subresource.
	scope handlers.RequestScope
}

// Scale says where a scale subresource finds its numbers (JSON paths).
type Scale struct {
	SpecReplicasPath   string
	StatusReplicasPath string
	LabelSelectorPath  string
}
