package ownership

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/lib/jsonscan"
)

// Observation is the metadata, and perhaps the status, of an object at the target.
type Observation struct {
	Kind     string
	Metadata Meta
	// Spec contains only the small values of the spec.
	Spec   json.RawMessage
	Status json.RawMessage
}

// UnmarshalJSON reads the fields that the agent needs in one pass without reflection, since
// responses and watch events are most of the agent's decoding. The result shares no memory with b.
func (o *Observation) UnmarshalJSON(b []byte) error {
	root, err := Parse(b)
	if err != nil {
		return err
	}
	o.Read(root)
	return nil
}

// deepest is the maximum nesting of arrays and objects, the limit of encoding/json.
const deepest = 10_000

// Parse validates that b is a JSON value, and returns it.
func Parse(b []byte) (gjson.Result, error) {
	if jsonscan.Deeper(b, deepest) { // gjson recurses without a limit, and a stack overflow ends the process
		return gjson.Result{}, fmt.Errorf("a JSON value deeper than %d", deepest)
	}
	if !gjson.ValidBytes(b) {
		return gjson.Result{}, errors.New("not a JSON value")
	}
	return gjson.ParseBytes(b), nil
}

// Read reads the fields that the agent needs from a valid JSON value. The result shares no memory
// with it.
func (o *Observation) Read(from gjson.Result) {
	from.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "kind":
			o.Kind = text(v)
		case "metadata":
			o.Metadata.read(v)
		case "spec":
			o.Spec = smallOf(v)
		case "status":
			o.Status = json.RawMessage(v.Raw)
		}
		return true
	})
}

func (m *Meta) read(from gjson.Result) {
	from.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "name":
			m.Name = text(v)
		case "namespace":
			m.Namespace = text(v)
		case "uid":
			m.UID = text(v)
		case "resourceVersion":
			m.ResourceVersion = text(v)
		case "generation":
			m.Generation = v.Int()
		case "deletionTimestamp":
			m.DeletionTimestamp = text(v)
		case "finalizers":
			for _, f := range v.Array() {
				m.Finalizers = append(m.Finalizers, text(f))
			}
		case "labels":
			m.Labels = texts(v)
		case "annotations":
			m.Annotations = texts(v)
		case "ownerReferences":
			for _, r := range v.Array() {
				m.OwnerReferences = append(m.OwnerReferences, OwnerReference{
					APIVersion: text(r.Get("apiVersion")), Kind: text(r.Get("kind")), Name: text(r.Get("name")),
					UID: text(r.Get("uid")), Controller: r.Get("controller").Bool(),
				})
			}
		case "managedFields":
			for _, f := range v.Array() {
				m.ManagedFields = append(m.ManagedFields, readManagedFields(f))
			}
		}
		return true
	})
}

func readManagedFields(from gjson.Result) (f ManagedFields) {
	from.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "manager":
			f.Manager = text(v)
		case "operation":
			f.Operation = text(v)
		case "apiVersion":
			f.APIVersion = text(v)
		case "time":
			f.Time = text(v)
		case "subresource":
			f.Subresource = text(v)
		case "fieldsType":
			f.FieldsType = text(v)
		case "fieldsV1":
			f.FieldsV1 = json.RawMessage(v.Raw)
		}
		return true
	})
	return f
}

// text copies a string, so that a reference to it does not keep the whole response in memory.
func text(v gjson.Result) string { return strings.Clone(v.String()) }

func texts(from gjson.Result) map[string]string {
	if !from.IsObject() {
		return nil
	}
	all := map[string]string{}
	from.ForEach(func(k, v gjson.Result) bool {
		all[strings.Clone(k.Str)] = text(v)
		return true
	})
	return all
}

// Answer is an object in the cluster as returned by a request.
type Answer struct {
	Observation
	JSON string // the whole object; valid only during the request
}

// UnmarshalJSON keeps the JSON of the object, and reads an Observation from it.
func (a *Answer) UnmarshalJSON(b []byte) error {
	root, err := Parse(b)
	if err != nil {
		return err
	}
	a.Read(root)
	return nil
}

// Read keeps the JSON of the object, which shares memory with from, and reads an Observation.
func (a *Answer) Read(from gjson.Result) {
	a.JSON = from.Raw
	a.Observation.Read(from)
}

// maxSmall is the maximum length of a spec value that health rules use: numbers, names, and
// strategies with some of these.
const maxSmall = 512

// smallOf keeps only the spec values that health rules use. Others, such as Pod templates and CRD
// schemas, are most of an object's size.
func smallOf(spec gjson.Result) []byte {
	if !spec.IsObject() {
		return nil
	}
	small := []byte("{")
	spec.ForEach(func(name, value gjson.Result) bool {
		if len(name.Raw)+len(value.Raw) > maxSmall {
			return true
		}
		if len(small) > 1 {
			small = append(small, ',')
		}
		small = append(small, name.Raw...)
		small = append(small, ':')
		small = append(small, value.Raw...)
		return true
	})
	return append(small, '}')
}
