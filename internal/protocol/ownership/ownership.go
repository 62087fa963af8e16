package ownership

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
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	managerPrefix  = "orrery/"
	onRemoveOrphan = "Orphan"
	applyOperation = "Apply"
	// neverAVersion is a resourceVersion that no object has, since nothing is written at
	// etcd's first revision. An apply that requires it creates the object or fails.
	neverAVersion = "1"
)

// Owner identifies, at the target, the location that owns objects: NAME.UID8, so that a
// location that is removed and added again under its name is another owner.
type Owner string

// NewOwner is the owner for a location's name and UID at the hub.
func NewOwner(l key.Location, uid string) Owner {
	return Owner(key.OwnershipMark(l, uid))
}

func (l Owner) name() key.Location { return key.MarkedLocation(string(l)) }

// Manager is the field manager of everything the agent applies.
func (l Owner) Manager() string { return managerPrefix + string(l) }

// Meta is the part of an object's metadata that the agent reads.
type Meta struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	UID               string            `json:"uid"`
	ResourceVersion   string            `json:"resourceVersion"`
	Generation        int64             `json:"generation"`
	DeletionTimestamp string            `json:"deletionTimestamp"`
	Finalizers        []string          `json:"finalizers"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	OwnerReferences   []OwnerReference  `json:"ownerReferences"`
	ManagedFields     []ManagedFields   `json:"managedFields"`
}

// OwnerReference is an owner of an object at the target.
type OwnerReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller"`
}

// ManagedFields are the fields of an object that one manager owns, in one way.
type ManagedFields struct {
	Manager     string          `json:"manager,omitempty"`
	Operation   string          `json:"operation,omitempty"`
	APIVersion  string          `json:"apiVersion,omitempty"`
	Time        string          `json:"time,omitempty"`
	Subresource string          `json:"subresource,omitempty"`
	FieldsType  string          `json:"fieldsType,omitempty"`
	FieldsV1    json.RawMessage `json:"fieldsV1,omitempty"`
}

// Controlled says whether a controller at the target owns the object.
func (m *Meta) Controlled() bool { return m.Controller() != nil }

// Controller is the controlling owner of the object; nil: there is none.
func (m *Meta) Controller() *OwnerReference {
	for i := range m.OwnerReferences {
		if m.OwnerReferences[i].Controller {
			return &m.OwnerReferences[i]
		}
	}
	return nil
}

// Kind is a kind of objects at the target, and where the location puts them.
type Kind struct {
	Resource key.Resource
	Name     string // ConfigMap
	Placing  key.Placing
	// Shard is the part of the location that is looked for.
	Shard key.Shard
}

// ProvesOurs says whether the object has all marks that the agent gives to an object of
// this kind and identity, of the shard, and returns it. Labels alone prove nothing, since controllers
// copy them; the kind, namespace and name in the marks tell an object from one that was
// restored from a backup under another identity: what they name has exactly this place.
func (m *Meta) ProvesOurs(l Owner, of Kind) (key.Located, bool) {
	at := key.Identity{Resource: of.Resource, Namespace: m.Namespace, Name: m.Name}
	source := key.Object{Space: key.Space(m.Labels[v1alpha1.SpaceLabel]), Identity: key.Identity{
		Resource: of.Resource, Namespace: m.Annotations[v1alpha1.SourceNamespaceAnnotation], Name: m.Annotations[v1alpha1.SourceNameAnnotation],
	}}
	ours := m.Labels[v1alpha1.LocationLabel] == string(l) &&
		key.ValidateName(string(source.Space)) == nil &&
		m.Annotations[v1alpha1.SourceKindAnnotation] == of.Name &&
		of.Placing.At(source) == at &&
		m.Annotations[v1alpha1.SourceUIDAnnotation] != "" &&
		of.Shard.Has(source.Space) &&
		!m.Controlled()
	if !ours {
		return key.Located{Object: key.Object{Identity: at}}, false
	}
	return of.Placing.Locate(source), true
}

// ProvesOthers says whether the object has all marks of the location, and is of another shard.
func (m *Meta) ProvesOthers(l Owner, of Kind) bool {
	shard := of.Shard
	of.Shard = key.Shard{}
	at, ours := m.ProvesOurs(l, of)
	return ours && !shard.Has(at.Space)
}

// WrittenAs says that the location wrote the object in the resource's API group. An API
// server may serve the same object in two groups.
func (m *Meta) WrittenAs(l Owner, r key.Resource) bool {
	return slices.ContainsFunc(m.ManagedFields, func(f ManagedFields) bool {
		group, _, found := strings.Cut(f.APIVersion, "/")
		if !found {
			group = ""
		}
		return f.Manager == l.Manager() && f.Subresource == "" && group == r.APIGroup()
	})
}

// FieldsHash is a hash of the set of fields that the agent's manager owns in an object;
// zero: none. It changes when another writer changes or removes one of them.
type FieldsHash uint64

// MarshalText encodes in hexadecimal, since JSON numbers do not hold 64 bits.
func (h FieldsHash) MarshalText() ([]byte, error) {
	return strconv.AppendUint(nil, uint64(h), 16), nil
}

// UnmarshalText decodes what MarshalText encodes.
func (h *FieldsHash) UnmarshalText(b []byte) error {
	n, err := strconv.ParseUint(string(b), 16, 64)
	*h = FieldsHash(n)
	return err
}

// Fields hashes what the location's manager owns in the object.
func (m *Meta) Fields(l Owner) FieldsHash {
	for i := range m.ManagedFields {
		f := &m.ManagedFields[i]
		if !f.AppliedBy(l.Manager()) {
			continue
		}
		h := sha256.New()
		h.Write([]byte(f.APIVersion)) // a hash takes every write
		h.Write(f.FieldsV1)
		return FieldsHash(binary.BigEndian.Uint64(h.Sum(nil)))
	}
	return 0
}

// Revision is the object's resourceVersion; zero if it is not a number.
func (m *Meta) Revision() uint64 {
	n, err := strconv.ParseUint(m.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Origin is what the marks say of the source of an object: its UID in its space, its
// place in the log, whether the object is orphaned when it is removed, and the
// ServiceAccount that acts for it, empty for the agent itself.
type Origin struct {
	UID     string
	Log     Pair
	Orphan  bool
	Account string
}

// Dress makes the body of an apply: the rendering at its place, with the marks and a
// precondition. uid is the UID that the object at the target must have; empty: there must be
// none. Nothing but metadata is decoded; the rest is copied as it is.
func Dress(object []byte, l Owner, at key.Located, of Origin, uid string) ([]byte, error) {
	old := gjson.GetBytes(object, "metadata")
	if !old.IsObject() {
		return nil, errors.New("object: there is no metadata")
	}
	dec := json.NewDecoder(strings.NewReader(old.Raw))
	dec.UseNumber() // numbers stay as they were written
	var meta map[string]any
	if err := dec.Decode(&meta); err != nil {
		return nil, fmt.Errorf("decode metadata: %w", err)
	}
	o := at.Source()
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
	labels[v1alpha1.LocationLabel], labels[v1alpha1.SpaceLabel] = string(l), string(o.Space)
	annotations[v1alpha1.SourceKindAnnotation], annotations[v1alpha1.SourceUIDAnnotation] = gjson.GetBytes(object, "kind").String(), of.UID
	annotations[v1alpha1.SourceNamespaceAnnotation], annotations[v1alpha1.SourceNameAnnotation] = o.Namespace, o.Name
	if at.Moved != "" {
		move(meta, labels, at)
	}
	for _, name := range []string{v1alpha1.CascadeAnnotation, v1alpha1.RecreateAnnotation} { // as older hubs send them
		delete(annotations, name)
	}
	if of.Orphan {
		annotations[v1alpha1.OnRemoveAnnotation] = onRemoveOrphan
	}
	if of.Account != "" {
		annotations[v1alpha1.ServiceAccountAnnotation] = of.Account
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

// move gives metadata the name of the object's place.
func move(meta, labels map[string]any, at key.Located) {
	meta["name"] = at.Name
	if at.Namespace != "" {
		meta["namespace"] = at.Namespace
	} else if _, named := labels[namespaceLabel]; named { // Kubernetes sets it to the name
		labels[namespaceLabel] = at.Name
	}
}

// namespaceLabel is what every Namespace of Kubernetes has, with its name.
const namespaceLabel = "kubernetes.io/metadata.name"

// child returns the map under a name in m, which it makes if it is missing.
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

// Former says whether a field manager is that of an earlier location of the same name.
func (l Owner) Former(manager string) bool {
	return manager != l.Manager() && strings.HasPrefix(manager, managerPrefix+string(l.name())+".")
}

// AppliedBy says whether the entry has what a manager owns by server-side apply.
func (f *ManagedFields) AppliedBy(manager string) bool {
	return f.Manager == manager && f.Operation == applyOperation && f.Subresource == ""
}

// AnotherLocation says whether a label is that of a location of another name. One of the
// same name and another UID is an earlier location of the name.
func AnotherLocation(label string, l Owner) bool {
	return label != "" && key.MarkedLocation(label) != l.name()
}

// Log is the object's pair: the place in the log at which it was last written; zero:
// there is none.
func (m *Meta) Log() Pair { return ParsePair(m.Annotations[v1alpha1.LogAnnotation]) }

// WroteLog reports whether the location's manager owns the annotation with the object's pair:
// no other manager has written that since.
func (m *Meta) WroteLog(l Owner) bool {
	return slices.ContainsFunc(m.ManagedFields, func(f ManagedFields) bool {
		return f.Manager == l.Manager() && f.Subresource == "" && f.hasAnnotation(v1alpha1.LogAnnotation)
	})
}

func (f *ManagedFields) hasAnnotation(name string) bool {
	return gjson.GetBytes(f.FieldsV1, "f:metadata.f:annotations.f:"+strings.ReplaceAll(name, ".", `\.`)).Exists()
}

// Allows reports whether an annotation of the object has the value "true" and was set at the
// target by another field manager than those of Orrery, of whatever location: an annotation
// that comes from a space allows nothing.
func (m *Meta) Allows(annotation string) bool {
	return m.Annotations[annotation] == "true" && slices.ContainsFunc(m.ManagedFields, func(f ManagedFields) bool {
		return !strings.HasPrefix(f.Manager, managerPrefix) && f.Manager != ReleasedManager && f.hasAnnotation(annotation)
	})
}

// ReleasedManager is the field manager that owns released values until another writer
// changes them.
const ReleasedManager = "orrery-released"

// Released says whether the object has fields of ReleasedManager.
func (m *Meta) Released() bool {
	for i := range m.ManagedFields {
		if m.ManagedFields[i].AppliedBy(ReleasedManager) {
			return true
		}
	}
	return false
}

// Written says that the location's manager has written the object, in whatever group.
func (m *Meta) Written(l Owner) bool {
	for i := range m.ManagedFields {
		if m.ManagedFields[i].Manager == l.Manager() && m.ManagedFields[i].Subresource == "" {
			return true
		}
	}
	return false
}

// Orphan says that the object is marked to be orphaned when it is removed.
func (m *Meta) Orphan() bool {
	return m.Annotations[v1alpha1.OnRemoveAnnotation] == onRemoveOrphan
}

// Account is the ServiceAccount that acts for the object by its marks; empty: the agent
// itself.
func (m *Meta) Account() string { return m.Annotations[v1alpha1.ServiceAccountAnnotation] }

// Selector finds what has the label of the owner's location.
func (l Owner) Selector() string { return v1alpha1.LocationLabel + "=" + string(l) }
