package kinds

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// definition is the content of a CRD: what all its versions have in common.
type definition struct {
	compiler *Compiler
	hash     string
	// id tells definitions of one process apart, in less room than the hash.
	id uint64
	// source is the CRD as gzipped JSON: a schema may be a megabyte as Go values.
	source []byte
	// heavy is about what the artefacts take, in bytes.
	heavy int64

	group         string
	names         apiextensionsv1.CustomResourceDefinitionNames
	namespaced    bool
	preserve      bool
	storage       string
	versions      []apiextensionsv1.CustomResourceDefinitionVersion // without schemas
	replicasPaths managedfields.ResourcePathMappings

	convertor, unsafeConvertor runtime.ObjectConvertor

	// kinds are those of the versions that are served.
	kinds []*Kind
}

// weight is about what a definition takes without its artefacts, in bytes.
func (d *definition) weight() int64 { return int64(len(d.source) + len(d.kinds)*kindWeight) }

// canonical is the part of a CRD that decides how its objects are treated.
// Names count as they were accepted; the conversion never counts.
func canonical(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	c := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: crd.Name},
		Spec:       crd.Spec,
	}
	if crd.Status.AcceptedNames.Plural != "" {
		c.Spec.Names = crd.Status.AcceptedNames
	}
	if c.Spec.Names.Singular == "" {
		c.Spec.Names.Singular = strings.ToLower(c.Spec.Names.Kind)
	}
	if c.Spec.Names.ListKind == "" {
		c.Spec.Names.ListKind = c.Spec.Names.Kind + "List"
	}
	c.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	c.Status.AcceptedNames = c.Spec.Names
	return c
}

// pack serializes a canonical CRD and names the content.
func pack(crd *apiextensionsv1.CustomResourceDefinition) (data []byte, hash string, err error) {
	data, err = json.Marshal(crd)
	if err != nil {
		return nil, "", fmt.Errorf("encode CRD %q: %w", crd.Name, err)
	}
	sum := sha256.Sum256(data)
	return data, hex.EncodeToString(sum[:]), nil
}

func (c *Compiler) define(crd *apiextensionsv1.CustomResourceDefinition, data []byte, hash string) (*definition, error) {
	d := &definition{
		compiler:      c,
		hash:          hash,
		id:            c.made.Add(1),
		heavy:         artefactsWeight(data),
		group:         crd.Spec.Group,
		names:         *crd.Spec.Names.DeepCopy(),
		namespaced:    crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		preserve:      crd.Spec.PreserveUnknownFields,
		replicasPaths: managedfields.ResourcePathMappings{},
	}
	for _, v := range crd.Spec.Versions {
		v.Schema = nil
		v = *v.DeepCopy()
		d.versions = append(d.versions, v)
		if v.Storage {
			d.storage = v.Name
		}
		d.replicasPaths[d.gv(v.Name).String()] = replicasPath(v.Subresources)
	}
	if d.storage == "" {
		return nil, fmt.Errorf("compile CRD %q: no version is stored", crd.Name)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(data); err != nil {
		return nil, fmt.Errorf("pack CRD %q: %w", crd.Name, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack CRD %q: %w", crd.Name, err)
	}
	d.source = bytes.Clone(packed.Bytes())
	var err error
	if d.convertor, d.unsafeConvertor, err = c.converters.NewConverter(crd); err != nil {
		return nil, fmt.Errorf("compile CRD %q: %w", crd.Name, err)
	}
	return d, nil
}

// replicasPath is nil for a version without a scale subresource.
func replicasPath(s *apiextensionsv1.CustomResourceSubresources) fieldpath.Path {
	if s == nil || s.Scale == nil {
		return nil
	}
	var path fieldpath.Path
	for name := range strings.SplitSeq(strings.TrimPrefix(s.Scale.SpecReplicasPath, "."), ".") {
		path = append(path, fieldpath.PathElement{FieldName: &name})
	}
	return path
}

// unpack is the CRD as Go values; the caller owns them.
func (d *definition) unpack() (*apiextensionsv1.CustomResourceDefinition, error) {
	r, err := gzip.NewReader(bytes.NewReader(d.source))
	if err != nil {
		return nil, fmt.Errorf("unpack CRD %q: %w", d.name(), err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("unpack CRD %q: %w", d.name(), err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal(data, crd); err != nil {
		return nil, fmt.Errorf("unpack CRD %q: %w", d.name(), err)
	}
	return crd, nil
}

// has says whether there is such a version, served or not.
func (d *definition) has(version string) bool {
	return slices.ContainsFunc(d.versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version })
}

func (d *definition) name() string { return d.names.Plural + "." + d.group }

func (d *definition) gv(version string) schema.GroupVersion {
	return schema.GroupVersion{Group: d.group, Version: version}
}

func (d *definition) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: d.group, Kind: d.names.Kind}
}

// artefacts are the heavy parts, from the cache or to be compiled.
func (d *definition) artefacts() *artefacts {
	return d.compiler.artefacts.get(d.hash, d.heavy, func() *artefacts { return newArtefacts(d) })
}

// deprecation is the warning of a deprecated version whose CRD gives none.
func (d *definition) deprecation(name string) string {
	message := fmt.Sprintf("%s %s is deprecated", d.gv(name), d.names.Kind)
	var newer []string
	for _, v := range d.versions {
		if v.Served && !v.Deprecated && version.CompareKubeAwareVersionStrings(name, v.Name) < 0 {
			newer = append(newer, v.Name)
		}
	}
	if len(newer) == 0 {
		return message
	}
	slices.SortFunc(newer, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	return fmt.Sprintf("%s; use %s %s", message, d.gv(newer[0]), d.names.Kind)
}
