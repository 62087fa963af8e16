package custom

import (
	"bytes"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"orrery.dev/orrery/internal/kinds"
	"orrery.dev/orrery/internal/kinds/openapi"
)

// version is one version of a CRD. It is a light handle: what is heavy (schemas,
// validators, merge rules, documents) is compiled when it is first needed, kept
// in the Compiler's bounded cache, and compiled again if it had to go; so an
// error of compilation may show at any use of a CRD that Compiler.Check was not
// asked about.
type version struct {
	def  *Definition
	spec apiextensionsv1.CustomResourceDefinitionVersion // without its schema
}

var _ kinds.Custom = version{}

func (v version) gvk() schema.GroupVersionKind {
	return v.def.gv(v.spec.Name).WithKind(v.def.names.Kind)
}

func (v version) codec() storageCodec { return storageCodec{def: v.def, served: v.spec.Name} }

// Hash names the content of the CRD.
func (v version) Hash() string { return v.def.hash }

// ID tells the definition from others.
func (v version) ID() uint64 { return v.def.id }

// Warnings are what every request for the version is to be warned of.
func (v version) Warnings() []string {
	if !v.spec.Deprecated {
		return nil
	}
	if v.spec.DeprecationWarning != nil {
		return []string{*v.spec.DeprecationWarning}
	}
	return []string{v.def.deprecation(v.spec.Name)}
}

// ReplicasPaths says where each version has the number that scale sets.
func (v version) ReplicasPaths() managedfields.ResourcePathMappings { return v.def.replicasPaths }

// OpenAPI is the documents of the version.
func (v version) OpenAPI() *openapi.Custom { return v.def.artefacts().documents[v.spec.Name] }

// Today returns a stored object as it reads today; nil if that is what the bytes are.
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
