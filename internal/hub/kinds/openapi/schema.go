package openapi

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Schema is the schema of the values at one path of objects. Schemas may refer to each other in
// cycles. A nil Schema allows any value.
type Schema struct {
	// Type is the type as JSON Schema names it; empty if there may be several.
	Type string
	// Properties are the named fields of an object, and Values is the schema of all others. Open
	// reports whether an object may have other fields with any values.
	Properties map[string]*Schema
	Values     *Schema
	Open       bool
	// Items are the elements of an array.
	Items *Schema
}

// Closed reports whether an object can have only the fields in Properties.
func (s *Schema) Closed() bool {
	return s != nil && s.Type == "object" && len(s.Properties) > 0 && s.Values == nil && !s.Open
}

// Field returns the schema of a field of an object; ok is false if the object can't have the field.
func (s *Schema) Field(name string) (schema *Schema, ok bool) {
	if s == nil {
		return nil, true
	}
	if schema, ok = s.Properties[name]; ok {
		return schema, true
	}
	return s.Values, !s.Closed()
}

// document is a schema as documents have it.
type document struct {
	Ref                  string               `json:"$ref"`
	AllOf                []*document          `json:"allOf"`
	Type                 string               `json:"type"`
	Properties           map[string]*document `json:"properties"`
	AdditionalProperties json.RawMessage      `json:"additionalProperties"`
	Items                *document            `json:"items"`

	IntOrString bool                      `json:"x-kubernetes-int-or-string"`
	Preserve    bool                      `json:"x-kubernetes-preserve-unknown-fields"`
	Embedded    bool                      `json:"x-kubernetes-embedded-resource"`
	Kinds       []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

// Schemas reads the schemas of kinds from a document of OpenAPI 3, packed.
func Schemas(packed []byte) (map[schema.GroupVersionKind]*Schema, error) {
	data, err := Unpack(packed)
	if err != nil {
		return nil, err
	}
	var all struct {
		Components struct {
			Schemas map[string]*document `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("read the schemas of a document: %w", err)
	}
	r := reader{all.Components.Schemas, map[string]*Schema{}}
	kinds := map[schema.GroupVersionKind]*Schema{}
	for name, d := range r.documents {
		if len(d.Kinds) == 1 {
			kinds[d.Kinds[0]] = r.named(name)
		}
	}
	return kinds, nil
}

// reader makes each schema of a document once.
type reader struct {
	documents map[string]*document
	known     map[string]*Schema
}

const refPrefix = "#/components/schemas/"

// named is the schema of a name; nil if the document does not have it.
func (r *reader) named(name string) *Schema {
	if s, ok := r.known[name]; ok {
		return s
	}
	d := r.documents[name]
	if d == nil || d.IntOrString || d.Type == "" && d.Ref == "" {
		return nil
	}
	s := &Schema{}
	r.known[name] = s
	r.fill(s, d)
	return s
}

func (r *reader) read(d *document) *Schema {
	switch {
	case d == nil:
		return nil
	case d.Ref != "":
		return r.named(strings.TrimPrefix(d.Ref, refPrefix))
	case d.Type == "" && len(d.AllOf) == 1:
		return r.read(d.AllOf[0])
	case d.Type == "" || d.IntOrString:
		return nil
	}
	s := &Schema{}
	r.fill(s, d)
	return s
}

func (r *reader) fill(s *Schema, d *document) {
	s.Type, s.Items, s.Open = d.Type, r.read(d.Items), d.Preserve || d.Embedded
	if len(d.Properties) > 0 {
		s.Properties = make(map[string]*Schema, len(d.Properties))
		for name, p := range d.Properties {
			s.Properties[name] = r.read(p)
		}
	}
	var others document
	switch a := string(d.AdditionalProperties); {
	case a == "" || a == "false":
	case a == "true" || json.Unmarshal(d.AdditionalProperties, &others) != nil:
		s.Open = true
	default:
		if s.Values = r.read(&others); s.Values == nil {
			s.Open = true
		}
	}
}
