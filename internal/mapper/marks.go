package mapper

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
)

const (
	// locationLabel finds what the agent has made; the other marks prove it.
	locationLabel  = v1alpha1.LocationLabel
	impliedMark    = v1alpha1.ImpliedAnnotation
	managerPrefix  = "orrery/"
	onRemoveOrphan = "Orphan"
	applyOperation = "Apply"
	// neverAVersion is a resourceVersion that no object has: etcd's first revision
	// is of nothing. An apply that asks for it makes an object or fails.
	neverAVersion = "1"
)

// identity is the location as the target sees it: NAME.UID8.
type identity string

func newIdentity(location, uid string) identity {
	return identity(key.Mark(key.Location(location), uid))
}

// manager is the field manager of everything the agent applies.
func (l identity) manager() string { return managerPrefix + string(l) }

// objectMeta is what the agent looks at of an object at the target.
type objectMeta struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	UID               string            `json:"uid"`
	ResourceVersion   string            `json:"resourceVersion"`
	Generation        int64             `json:"generation"`
	DeletionTimestamp string            `json:"deletionTimestamp"`
	Finalizers        []string          `json:"finalizers"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	OwnerReferences   []ownerReference  `json:"ownerReferences"`
	ManagedFields     []managedFields   `json:"managedFields"`
}

type ownerReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller"`
}

type managedFields struct {
	Manager     string          `json:"manager,omitempty"`
	Operation   string          `json:"operation,omitempty"`
	APIVersion  string          `json:"apiVersion,omitempty"`
	Time        string          `json:"time,omitempty"`
	Subresource string          `json:"subresource,omitempty"`
	FieldsType  string          `json:"fieldsType,omitempty"`
	FieldsV1    json.RawMessage `json:"fieldsV1,omitempty"`
}

// controlled says whether a controller at the target owns the object.
func (m *objectMeta) controlled() bool { return m.controller() != nil }

// controller is the object that a controller has made this one for; nil: there is none.
func (m *objectMeta) controller() *ownerReference {
	for i := range m.OwnerReferences {
		if m.OwnerReferences[i].Controller {
			return &m.OwnerReferences[i]
		}
	}
	return nil
}

// provesOurs says whether the object's marks are those the agent gives to an
// object of this kind and identity, and names its space. Controllers copy
// labels, and backups copy everything but the place.
func (m *objectMeta) provesOurs(l identity, kind string) (key.Space, bool) {
	space := key.Space(m.Labels[v1alpha1.SpaceLabel])
	ours := m.Labels[locationLabel] == string(l) &&
		key.ValidateName(string(space)) == nil &&
		m.Annotations[v1alpha1.SourceKindAnnotation] == kind &&
		m.Annotations[v1alpha1.SourceNamespaceAnnotation] == m.Namespace &&
		m.Annotations[v1alpha1.SourceNameAnnotation] == m.Name &&
		m.Annotations[v1alpha1.SourceUIDAnnotation] != "" &&
		!m.controlled()
	return space, ours
}

// writtenAs says that the location wrote the object as one of the resource's group.
// An API server may serve the same object in two groups.
func (m *objectMeta) writtenAs(l identity, r key.Resource) bool {
	return slices.ContainsFunc(m.ManagedFields, func(f managedFields) bool {
		group, _, found := strings.Cut(f.APIVersion, "/")
		if !found {
			group = ""
		}
		return f.Manager == l.manager() && f.Subresource == "" && group == r.APIGroup()
	})
}

// fieldsHash is a hash of the fields that the agent's manager owns in an
// object; zero: none. It changes when another takes a field or its value away.
type fieldsHash uint64

// MarshalText encodes in hexadecimal: JSON numbers do not hold 64 bits.
func (h fieldsHash) MarshalText() ([]byte, error) {
	return strconv.AppendUint(nil, uint64(h), 16), nil
}

// UnmarshalText decodes what MarshalText encodes.
func (h *fieldsHash) UnmarshalText(b []byte) error {
	n, err := strconv.ParseUint(string(b), 16, 64)
	*h = fieldsHash(n)
	return err
}

// fields hashes what the location's manager owns in the object.
func (m *objectMeta) fields(l identity) fieldsHash {
	for i := range m.ManagedFields {
		f := &m.ManagedFields[i]
		if !f.appliedBy(l.manager()) {
			continue
		}
		h := sha256.New()
		h.Write([]byte(f.APIVersion)) // a hash takes every write
		h.Write(f.FieldsV1)
		return fieldsHash(binary.BigEndian.Uint64(h.Sum(nil)))
	}
	return 0
}

// observed is what the object is, if it is the agent's.
func (m *objectMeta) observed(l identity) *observed {
	return &observed{
		presence: present, uid: m.UID, revision: m.revision(), fields: m.fields(l),
		terminating: m.DeletionTimestamp != "", released: m.released(), log: m.log(),
	}
}

// revision is the object's resourceVersion; zero if it is not a number.
func (m *objectMeta) revision() uint64 {
	n, err := strconv.ParseUint(m.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// dress makes the body of an apply: the rendering with the marks, and with what
// must hold of the object at the target. uid is the UID it must have; empty: it
// must not exist. The rest of the object stays as it was written, unread.
func dress(object []byte, l identity, o key.Object, of *source, uid string) ([]byte, error) {
	old := gjson.GetBytes(object, "metadata")
	if !old.IsObject() {
		return nil, errors.New("object: there is no metadata")
	}
	dec := json.NewDecoder(strings.NewReader(old.Raw))
	dec.UseNumber() // numbers travel as they were written
	var meta map[string]any
	if err := dec.Decode(&meta); err != nil {
		return nil, fmt.Errorf("decode metadata: %w", err)
	}
	if meta["name"] != o.Name || o.Namespace != "" && meta["namespace"] != o.Namespace {
		return nil, fmt.Errorf("object: metadata does not name %q", o.Identity.String())
	}
	labels, err := child(meta, "labels")
	if err != nil {
		return nil, err
	}
	annotations, err := child(meta, "annotations")
	if err != nil {
		return nil, err
	}
	labels[locationLabel], labels[v1alpha1.SpaceLabel] = string(l), string(o.Space)
	annotations[v1alpha1.SourceKindAnnotation], annotations[v1alpha1.SourceUIDAnnotation] = gjson.GetBytes(object, "kind").String(), of.UID
	annotations[v1alpha1.SourceNamespaceAnnotation], annotations[v1alpha1.SourceNameAnnotation] = o.Namespace, o.Name
	if of.Policy.Orphan {
		annotations[v1alpha1.OnRemoveAnnotation] = onRemoveOrphan
	}
	if !of.Log.IsZero() {
		annotations[v1alpha1.LogAnnotation] = of.Log.String()
	}
	delete(meta, "managedFields")
	delete(meta, "uid")
	delete(meta, "resourceVersion")
	if uid == "" {
		meta["resourceVersion"] = neverAVersion
	} else {
		meta["uid"] = uid
	}
	dressed, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	return slices.Concat(object[:old.Index], dressed, object[old.Index+len(old.Raw):]), nil
}

// child returns a map in a map, made if it is missing.
func child(m map[string]any, name string) (map[string]any, error) {
	switch v := m[name].(type) {
	case map[string]any:
		return v, nil
	case nil:
		c := map[string]any{}
		m[name] = c
		return c, nil
	default:
		return nil, fmt.Errorf("object: %s is not a map", name)
	}
}
