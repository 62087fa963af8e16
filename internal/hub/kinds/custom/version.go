package custom

import (
	"bytes"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/openapi"
)

// version is one version of a CRD. It is a light handle: heavy parts (schemas, validators,
// merge rules, documents) are compiled when they are first needed, kept in the Compiler's
// bounded cache, and compiled again after they were evicted. Any use of a CRD that was not
// checked by Compiler.Check may therefore fail to compile.
type version struct {
	def  *Definition
	spec apiextensionsv1.CustomResourceDefinitionVersion // without its schema
}

var _ kinds.Custom = version{}

func (v version) gvk() schema.GroupVersionKind {
	return v.def.gv(v.spec.Name).WithKind(v.def.names.Kind)
}

func (v version) codec() storageCodec { return storageCodec{def: v.def, served: v.spec.Name} }

// Hash identifies the content of the CRD.
func (v version) Hash() string { return v.def.hash }

// ID identifies the definition in this process.
func (v version) ID() uint64 { return v.def.id }

// Warnings are the warnings for every request for the version.
func (v version) Warnings() []string {
	if !v.spec.Deprecated {
		return nil
	}
	if v.spec.DeprecationWarning != nil {
		return []string{*v.spec.DeprecationWarning}
	}
	return []string{v.def.deprecation(v.spec.Name)}
}

// ReplicasPaths returns the path of the replica count, which scale sets, in each version.
func (v version) ReplicasPaths() managedfields.ResourcePathMappings { return v.def.replicasPaths }

// OpenAPI returns the documents of the version.
func (v version) OpenAPI() *openapi.Custom { return v.def.artefacts().documents[v.spec.Name] }

// Today returns a stored object as the current definition reads it; nil if the bytes are
// that already.
func (v version) Today(value []byte) ([]byte, error) {
	o, err := runtime.Decode(v.codec(), value)
	if err != nil {
		return nil, err
	}
	today, err := runtime.Encode(unstructured.UnstructuredJSONScheme, o)
	if err != nil || bytes.Equal(today, value) {
		return nil, err
	}
	return today, nil
}
