package custom

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	apiversion "k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"orrery.dev/orrery/internal/hub/kinds"
)

// Definition is the content of a CRD that all its versions have in common.
type Definition struct {
	*machinery
	cache *lru[string, *artefacts]
	hash  string
	// id identifies the definition in this process, and is smaller than the hash.
	id uint64
	// source is the CRD as gzipped JSON: a schema may need a megabyte as Go values.
	source []byte
	// heavy is the estimated size of the artefacts in bytes.
	heavy int64

	group         string
	names         apiextensionsv1.CustomResourceDefinitionNames
	namespaced    bool
	preserve      bool
	storage       string
	versions      []apiextensionsv1.CustomResourceDefinitionVersion // without schemas
	replicasPaths managedfields.ResourcePathMappings

	convertor, unsafeConvertor runtime.ObjectConvertor

	// kinds are the kinds of the served versions.
	kinds []*kinds.Kind
}

// Kinds are the kinds of the served versions, in the order of the CRD. The caller must not
// change the slice.
func (d *Definition) Kinds() []*kinds.Kind { return d.kinds }

// Weight is about what a definition takes without its artefacts, in bytes.
func (d *Definition) Weight() int64 { return int64(len(d.source) + len(d.kinds)*kindWeight) }

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
	c.Spec.Versions = slices.Clone(c.Spec.Versions)
	for i := range c.Spec.Versions {
		c.Spec.Versions[i].Schema = withConditions(&c.Spec.Versions[i])
	}
	c.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	c.Status.AcceptedNames = c.Spec.Names
	return c
}

// withConditions returns the schema of a version, with room for conditions in a status that has none. The hub
// adds the condition Reconciling to a status that comes back from locations which have an earlier version or
// can't be seen; without it, tools take an object of such a kind for done. It returns the schema as it is if the
// kind has no status, if that has conditions, or if that keeps fields of any name.
func withConditions(v *apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.CustomResourceValidation {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil || v.Subresources == nil || v.Subresources.Status == nil {
		return v.Schema
	}
	const statusField, conditionsField = "status", "conditions"
	status, ok := v.Schema.OpenAPIV3Schema.Properties[statusField]
	keepsAll := status.XPreserveUnknownFields != nil && *status.XPreserveUnknownFields
	if _, exists := status.Properties[conditionsField]; !ok || exists || keepsAll || status.Type != "object" || status.AdditionalProperties != nil {
		return v.Schema
	}
	all := true
	status.Properties = maps.Clone(status.Properties) // all else is shared
	if status.Properties == nil {
		status.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
	}
	status.Properties[conditionsField] = apiextensionsv1.JSONSchemaProps{
		Description: "Set by Orrery while locations have an earlier version or can't be seen.",
		Type:        "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", XPreserveUnknownFields: &all,
		}},
	}
	schema := *v.Schema.OpenAPIV3Schema
	schema.Properties = maps.Clone(schema.Properties)
	schema.Properties[statusField] = status
	return &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema}
}

// content is a CRD as JSON.
type content struct {
	// data is the canonical CRD, and hash names it.
	data []byte
	hash string
	// text names the stored text, as far as the canonical CRD depends on it.
	text [sha256.Size]byte
}

// pack serializes the canonical form of a CRD.
func pack(canonical, original *apiextensionsv1.CustomResourceDefinition) (c content, err error) {
	var stored, versions [][]byte // most are the same
	for i := range original.Spec.Versions {
		v, err := json.Marshal(&original.Spec.Versions[i])
		if err != nil {
			return content{}, fmt.Errorf("encode CRD %q: %w", original.Name, err)
		}
		stored = append(stored, v)
		if canonical.Spec.Versions[i].Schema != original.Spec.Versions[i].Schema {
			if v, err = json.Marshal(&canonical.Spec.Versions[i]); err != nil {
				return content{}, fmt.Errorf("encode CRD %q: %w", original.Name, err)
			}
		}
		versions = append(versions, v)
	}
	outline := *canonical
	outline.Spec.Versions = nil
	if c.data, err = json.Marshal(&outline); err != nil {
		return content{}, fmt.Errorf("encode CRD %q: %w", original.Name, err)
	}
	c.text = textOf(c.data, string(jsonList(stored)))
	const none = `"versions":null`
	c.data = bytes.Replace(c.data, []byte(none), slices.Concat([]byte(`"versions":`), jsonList(versions)), 1)
	sum := sha256.Sum256(c.data)
	c.hash = hex.EncodeToString(sum[:])
	return c, nil
}

// jsonList is a list of JSON values.
func jsonList(values [][]byte) []byte {
	return slices.Concat([]byte("["), bytes.Join(values, []byte(",")), []byte("]"))
}

// textOf names the outline of a canonical CRD, which has no versions, with versions as they are stored.
func textOf(outline []byte, versions string) [sha256.Size]byte {
	h := sha256.New()
	_, _ = h.Write(outline) // it never fails
	_, _ = io.WriteString(h, versions)
	return [sha256.Size]byte(h.Sum(nil))
}

// subresources are those of a version, in the library's own form; nil for none.
func subresources(v apiextensionsv1.CustomResourceDefinitionVersion) (*apiextensions.CustomResourceSubresourceStatus, *apiextensions.CustomResourceSubresourceScale) {
	var status *apiextensions.CustomResourceSubresourceStatus
	var scale *apiextensions.CustomResourceSubresourceScale
	if v.Subresources == nil {
		return nil, nil
	}
	if v.Subresources.Status != nil {
		status = &apiextensions.CustomResourceSubresourceStatus{}
	}
	if s := v.Subresources.Scale; s != nil {
		scale = &apiextensions.CustomResourceSubresourceScale{
			SpecReplicasPath:   s.SpecReplicasPath,
			StatusReplicasPath: s.StatusReplicasPath,
			LabelSelectorPath:  s.LabelSelectorPath,
		}
	}
	return status, scale
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
func (d *Definition) unpack() (*apiextensionsv1.CustomResourceDefinition, error) {
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

// hasVersion reports whether the CRD has a version, served or not.
func (d *Definition) hasVersion(version string) bool {
	return slices.ContainsFunc(d.versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version })
}

func (d *Definition) name() string { return d.names.Plural + "." + d.group }

func (d *Definition) gv(version string) schema.GroupVersion {
	return schema.GroupVersion{Group: d.group, Version: version}
}

func (d *Definition) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: d.group, Kind: d.names.Kind}
}

// artefacts returns the large parts, from the cache or compiled again.
func (d *Definition) artefacts() *artefacts {
	return d.cache.get(d.hash, d.heavy, func() *artefacts { return newArtefacts(d) })
}

// deprecation is the warning of a deprecated version whose CRD gives none.
func (d *Definition) deprecation(name string) string {
	message := fmt.Sprintf("%s %s is deprecated", d.gv(name), d.names.Kind)
	var newer []string
	for _, v := range d.versions {
		if v.Served && !v.Deprecated && apiversion.CompareKubeAwareVersionStrings(name, v.Name) < 0 {
			newer = append(newer, v.Name)
		}
	}
	if len(newer) == 0 {
		return message
	}
	slices.SortFunc(newer, func(a, b string) int { return apiversion.CompareKubeAwareVersionStrings(b, a) })
	return fmt.Sprintf("%s; use %s %s", message, d.gv(newer[0]), d.names.Kind)
}
