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
	// Spec has the small values of the spec alone.
	Spec   json.RawMessage
	Status json.RawMessage
}

// UnmarshalJSON reads the fields that the agent needs in one pass, without reflection,
// which took a tenth of a full sync: answers and watch events are most of what the agent
// decodes. Nothing it keeps shares memory with b.
func (o *Observation) UnmarshalJSON(b []byte) error {
	root, err := Parse(b)
	if err != nil {
		return err
	}
	o.Read(root)
	return nil
}

// deepest is how deeply arrays and objects may lie in each other, as encoding/json has it.
const deepest = 10_000

// Parse checks that b is a JSON value, and returns it.
func Parse(b []byte) (gjson.Result, error) {
	if jsonscan.Deeper(b, deepest) { // gjson would go as deep by itself, and the process would end where its stack does
		return gjson.Result{}, fmt.Errorf("a JSON value deeper than %d", deepest)
	}
	if !gjson.ValidBytes(b) {
		return gjson.Result{}, errors.New("not a JSON value")
	}
	return gjson.ParseBytes(b), nil
}

// Read reads the fields that the agent needs of a JSON value that is known to be one. Nothing it
// keeps shares memory with that.
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

// text copies a string, so that keeping it does not keep the whole answer in memory.
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

// Answer is an object at the target, as the answer to a request has it.
type Answer struct {
	Observation
	JSON string // the whole object; not to be kept beyond the request
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

// Read keeps the JSON of the object, which shares memory with what it is read from, and reads
// an Observation.
func (a *Answer) Read(from gjson.Result) {
	a.JSON = from.Raw
	a.Observation.Read(from)
}

// maxSmall is the length of the longest value in a spec that a rule may be about: numbers,
// names, and strategies that hold some of these.
const maxSmall = 512

// smallOf leaves of a spec the values that rules of health are about. The others, such as the templates
// of Pods and the schemas of CRDs, are most of what an object is.
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
