package openapi

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Schema is what a document says of the values at one place of objects. Schemas refer to
// each other, also in circles. A nil Schema is of a place where there may be anything.
type Schema struct {
	// Type is the type as JSON Schema names it; empty if there may be several.
	Type string
	// Properties are the fields of an object that are named, and Values what all others are;
	// Open says that there may be others, whatever they are.
	Properties map[string]*Schema
	Values     *Schema
	Open       bool
	// Items are the elements of an array.
	Items *Schema
}

// Closed says that an object has no fields but its Properties.
func (s *Schema) Closed() bool {
	return s != nil && s.Type == "object" && len(s.Properties) > 0 && s.Values == nil && !s.Open
}

// Field is the schema of a field of an object; ok is false if it has no such field.
func (s *Schema) Field(name string) (of *Schema, ok bool) {
	if s == nil {
		return nil, true
	}
	if of, ok = s.Properties[name]; ok {
		return of, true
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

func (r *reader) of(d *document) *Schema {
	switch {
	case d == nil:
		return nil
	case d.Ref != "":
		return r.named(strings.TrimPrefix(d.Ref, refPrefix))
	case d.Type == "" && len(d.AllOf) == 1:
		return r.of(d.AllOf[0])
	case d.Type == "" || d.IntOrString:
		return nil
	}
	s := &Schema{}
	r.fill(s, d)
	return s
}

func (r *reader) fill(s *Schema, d *document) {
	s.Type, s.Items, s.Open = d.Type, r.of(d.Items), d.Preserve || d.Embedded
	if len(d.Properties) > 0 {
		s.Properties = make(map[string]*Schema, len(d.Properties))
		for name, p := range d.Properties {
			s.Properties[name] = r.of(p)
		}
	}
	var others document
	switch a := string(d.AdditionalProperties); {
	case a == "" || a == "false":
	case a == "true" || json.Unmarshal(d.AdditionalProperties, &others) != nil:
		s.Open = true
	default:
		if s.Values = r.of(&others); s.Values == nil {
			s.Open = true
		}
	}
}
