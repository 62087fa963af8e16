package custom

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Stored is a CRD as it is stored. Its versions, which have almost all of its bytes, are decoded
// only when they are compiled for the first time.
type Stored struct {
	value []byte
	// outline is the CRD without versions, which are JSON.
	outline  apiextensionsv1.CustomResourceDefinition
	versions string
}

// ReadStored reads a stored CRD, which must not change any more.
func ReadStored(value []byte) (*Stored, error) {
	s := &Stored{value: value}
	var failed []error
	decode := func(value gjson.Result, into any) { failed = append(failed, json.Unmarshal([]byte(value.Raw), into)) }
	read := func(spec gjson.Result) {
		spec.ForEach(func(field, value gjson.Result) bool {
			switch field.Str {
			case "group":
				decode(value, &s.outline.Spec.Group)
			case "names":
				decode(value, &s.outline.Spec.Names)
			case "scope":
				decode(value, &s.outline.Spec.Scope)
			case "versions":
				s.versions = value.Raw
			case "preserveUnknownFields":
				decode(value, &s.outline.Spec.PreserveUnknownFields)
			}
			return true
		})
	}
	all := gjson.ParseBytes(value)
	if !all.IsObject() {
		return nil, errors.New("the CRD is no object")
	}
	all.ForEach(func(field, value gjson.Result) bool {
		switch field.Str {
		case "metadata":
			s.outline.Name = value.Get("name").Str
		case "spec":
			if !value.IsObject() {
				failed = append(failed, errors.New("the spec is no object"))
			}
			read(value)
		case "status":
			decode(value, &s.outline.Status)
		}
		return true
	})
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	return s, nil
}

// Status returns the status, which the caller may change before the CRD is compiled.
func (s *Stored) Status() *apiextensionsv1.CustomResourceDefinitionStatus { return &s.outline.Status }

// Decode returns the whole CRD.
func (s *Stored) Decode() (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal(s.value, crd); err != nil {
		return nil, fmt.Errorf("decode CRD %q: %w", s.outline.Name, err)
	}
	crd.Status = s.outline.Status
	return crd, nil
}

// CompileStored is Compile for a stored CRD. It does not decode a CRD whose definition is known.
func (c *Compiler) CompileStored(s *Stored) (*Definition, error) {
	outline, err := json.Marshal(canonical(&s.outline))
	if err != nil {
		return nil, fmt.Errorf("encode CRD %q: %w", s.outline.Name, err)
	}
	text := textOf(outline, s.versions)
	if hash, ok := c.stored.peek(text); ok {
		if d := c.known(hash); d != nil {
			return d, nil
		}
	}
	crd, err := s.Decode()
	if err != nil {
		return nil, err
	}
	d, err := c.Compile(crd)
	if err == nil { // the stored text may differ from the text that the codec would make
		c.stored.get(text, 1, func() string { return d.hash })
	}
	return d, err
}
