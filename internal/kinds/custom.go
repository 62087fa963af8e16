package kinds

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// Custom is what a CRD says of one version of its resource. It is a light
// handle, immutable and shared by all spaces whose CRDs say the same. What is
// heavy (schemas, validators, merge rules, documents) is compiled when it is
// first needed, kept in the Compiler's bounded cache, and compiled again if it
// had to go; so an error of compilation may show at any use of a CRD that
// Compiler.Check was not asked about.
type Custom struct {
	def     *definition
	version apiextensionsv1.CustomResourceDefinitionVersion // without its schema
	kind    *Kind
}

// Structural is the schema of the version: what is pruned and defaulted by. It
// is nil for a version without one.
func (c *Custom) Structural() (*structuralschema.Structural, error) {
	schemas, err := c.def.artefacts().structural()
	if err != nil {
		return nil, err
	}
	return schemas[c.version.Name], nil
}

// Hash names the content of the CRD: Customs of one version with equal hashes
// treat objects in the same way.
func (c *Custom) Hash() string { return c.def.hash }

// ID is another for every definition that was compiled, and never 0.
func (c *Custom) ID() uint64 { return c.def.id }

// Warnings are what every request for the version is to be warned of.
func (c *Custom) Warnings() []string {
	if !c.version.Deprecated {
		return nil
	}
	if c.version.DeprecationWarning != nil {
		return []string{*c.version.DeprecationWarning}
	}
	return []string{c.def.deprecation(c.version.Name)}
}

// Convertor turns objects of one version of the CRD into copies of another by
// renaming the version alone, whatever strategy the CRD asks for: webhooks have
// no effect in a space.
func (c *Custom) Convertor() runtime.ObjectConvertor { return c.def.convertor }

// ReplicasPaths says where each version has the number that scale sets.
func (c *Custom) ReplicasPaths() managedfields.ResourcePathMappings { return c.def.replicasPaths }
