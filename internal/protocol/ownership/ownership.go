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
	// neverAVersion is a resourceVersion that no object has, since etcd's first revision writes
	// nothing. An apply that requires it creates the object or fails.
	neverAVersion = "1"
)

// Owner identifies, in the cluster, the location that owns objects: NAME.UID8. A location that is
// removed and added again under its name is another owner.
type Owner string

// NewOwner returns the owner for a location's name and UID at the hub.
func NewOwner(l key.Location, uid string) Owner {
	return Owner(key.OwnershipMark(l, uid))
}

func (l Owner) name() key.Location { return key.MarkedLocation(string(l)) }

// Manager returns the field manager of all objects that the agent applies.
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

// OwnerReference is an owner reference of an object in the cluster.
type OwnerReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller"`
}

// ManagedFields is the entry of one field manager for one operation.
type ManagedFields struct {
	Manager     string          `json:"manager,omitempty"`
	Operation   string          `json:"operation,omitempty"`
	APIVersion  string          `json:"apiVersion,omitempty"`
	Time        string          `json:"time,omitempty"`
	Subresource string          `json:"subresource,omitempty"`
	FieldsType  string          `json:"fieldsType,omitempty"`
	FieldsV1    json.RawMessage `json:"fieldsV1,omitempty"`
}

// Controlled reports whether a controller in the cluster owns the object.
func (m *Meta) Controlled() bool { return m.Controller() != nil }

// Controller returns the controlling owner of the object; nil if there is none.
func (m *Meta) Controller() *OwnerReference {
	for i := range m.OwnerReferences {
		if m.OwnerReferences[i].Controller {
			return &m.OwnerReferences[i]
		}
	}
	return nil
}

// Kind is a kind of objects in the cluster, and the namespace mapping of the location.
type Kind struct {
	Resource key.Resource
	Name     string // ConfigMap
	Placing  key.Placing
	// Shard is the shard of the location to look for.
	Shard key.Shard
}

// ProvesOurs reports whether the object has all ownership metadata that the agent gives to an
// object of this kind and identity, of the shard, and returns its source. Labels alone prove
// nothing, since controllers copy them. Kind, namespace and name in the metadata must match the
// object's own. They exclude objects that were restored from a backup under another identity.
func (m *Meta) ProvesOurs(l Owner, wanted Kind) (key.Located, bool) {
	identity := key.Identity{Resource: wanted.Resource, Namespace: m.Namespace, Name: m.Name}
	source := key.Object{Space: key.Space(m.Labels[v1alpha1.SpaceLabel]), Identity: key.Identity{
		Resource: wanted.Resource, Namespace: m.Annotations[v1alpha1.SourceNamespaceAnnotation], Name: m.Annotations[v1alpha1.SourceNameAnnotation],
	}}
	ours := m.Labels[v1alpha1.LocationLabel] == string(l) &&
		key.ValidateName(string(source.Space)) == nil &&
		m.Annotations[v1alpha1.SourceKindAnnotation] == wanted.Name &&
		wanted.Placing.TargetIdentity(source) == identity &&
		m.Annotations[v1alpha1.SourceUIDAnnotation] != "" &&
		wanted.Shard.Contains(source.Space) &&
		!m.Controlled()
	if !ours {
		return key.Located{Object: key.Object{Identity: identity}}, false
	}
	return wanted.Placing.Locate(source), true
}

// ProvesOthers reports whether the object has all ownership metadata of the location, but belongs
// to another shard.
func (m *Meta) ProvesOthers(l Owner, wanted Kind) bool {
	shard := wanted.Shard
	wanted.Shard = key.Shard{}
	located, ours := m.ProvesOurs(l, wanted)
	return ours && !shard.Contains(located.Space)
}

// WrittenAs reports whether the location wrote the object in the resource's API group. An API
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

// FieldsHash is a hash of the fields that the agent's manager owns in an object; zero for none. It
// changes when another writer changes or removes one of them.
type FieldsHash uint64

// MarshalText encodes the hash in hexadecimal, since JSON numbers do not hold 64 bits.
func (h FieldsHash) MarshalText() ([]byte, error) {
	return strconv.AppendUint(nil, uint64(h), 16), nil
}

// UnmarshalText decodes the output of MarshalText.
func (h *FieldsHash) UnmarshalText(b []byte) error {
	n, err := strconv.ParseUint(string(b), 16, 64)
	*h = FieldsHash(n)
	return err
}

// Fields returns the hash of the fields that the location's manager owns in the object.
func (m *Meta) Fields(l Owner) FieldsHash {
	for i := range m.ManagedFields {
		f := &m.ManagedFields[i]
		if !f.AppliedBy(l.Manager()) {
			continue
		}
		h := sha256.New()
		h.Write([]byte(f.APIVersion)) // a hash accepts every write
		h.Write(f.FieldsV1)
		return FieldsHash(binary.BigEndian.Uint64(h.Sum(nil)))
	}
	return 0
}

// Revision returns the object's resourceVersion; zero if it is not a number.
func (m *Meta) Revision() uint64 {
	n, err := strconv.ParseUint(m.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Origin is the source of an object in its ownership metadata: its UID in its space, its log
// position, whether it is orphaned when it is removed, and the impersonated ServiceAccount, which
// is empty for the agent itself.
type Origin struct {
	UID     string
	Log     Pair
	Orphan  bool
	Account string
}

// ApplyBody returns the body of an apply request: the rendered object in its namespace, with ownership
// metadata and a precondition. uid is the required UID of the object in the cluster; if it is
// empty, the object must not exist. Only metadata is decoded; the rest is copied unchanged.
func ApplyBody(object []byte, l Owner, located key.Located, origin Origin, uid string) ([]byte, error) {
	old := gjson.GetBytes(object, "metadata")
	if !old.IsObject() {
		return nil, errors.New("object: there is no metadata")
	}
	dec := json.NewDecoder(strings.NewReader(old.Raw))
	dec.UseNumber() // keeps numbers as written
	var meta map[string]any
	if err := dec.Decode(&meta); err != nil {
		return nil, fmt.Errorf("decode metadata: %w", err)
	}
	o := located.Source()
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
	annotations[v1alpha1.SourceKindAnnotation], annotations[v1alpha1.SourceUIDAnnotation] = gjson.GetBytes(object, "kind").String(), origin.UID
	annotations[v1alpha1.SourceNamespaceAnnotation], annotations[v1alpha1.SourceNameAnnotation] = o.Namespace, o.Name
	if located.Moved != "" {
		move(meta, labels, located)
	}
	for _, name := range []string{v1alpha1.CascadeAnnotation, v1alpha1.RecreateAnnotation} { // older hubs send them
		delete(annotations, name)
	}
	if origin.Orphan {
		annotations[v1alpha1.OnRemoveAnnotation] = onRemoveOrphan
	}
	if origin.Account != "" {
		annotations[v1alpha1.ServiceAccountAnnotation] = origin.Account
	}
	if !origin.Log.IsZero() {
		annotations[v1alpha1.LogAnnotation] = origin.Log.String()
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

// move sets the name and namespace of the object in the cluster.
func move(meta, labels map[string]any, located key.Located) {
	meta["name"] = located.Name
	if located.Namespace != "" {
		meta["namespace"] = located.Namespace
	} else if _, named := labels[namespaceLabel]; named { // Kubernetes sets it to the name
		labels[namespaceLabel] = located.Name
	}
}

// namespaceLabel is the label with the name of a Namespace, which Kubernetes sets.
const namespaceLabel = "kubernetes.io/metadata.name"

// child returns the map under a name in m, and creates it if it is missing.
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

// Former reports whether a field manager belongs to an earlier location of the same name.
func (l Owner) Former(manager string) bool {
	return manager != l.Manager() && strings.HasPrefix(manager, managerPrefix+string(l.name())+".")
}

// AppliedBy reports whether the entry contains the fields that a manager owns by server-side apply.
func (f *ManagedFields) AppliedBy(manager string) bool {
	return f.Manager == manager && f.Operation == applyOperation && f.Subresource == ""
}

// AnotherLocation reports whether a label value belongs to a location of another name. The same
// name with another UID is an earlier location of the name.
func AnotherLocation(label string, l Owner) bool {
	return label != "" && key.MarkedLocation(label) != l.name()
}

// Log returns the object's log position, at which it was last written; zero if there is none.
func (m *Meta) Log() Pair { return ParsePair(m.Annotations[v1alpha1.LogAnnotation]) }

// WroteLog reports whether the location's manager owns the annotation with the log position: no
// other manager has written it since.
func (m *Meta) WroteLog(l Owner) bool {
	return slices.ContainsFunc(m.ManagedFields, func(f ManagedFields) bool {
		return f.Manager == l.Manager() && f.Subresource == "" && f.hasAnnotation(v1alpha1.LogAnnotation)
	})
}

func (f *ManagedFields) hasAnnotation(name string) bool {
	return gjson.GetBytes(f.FieldsV1, "f:metadata.f:annotations.f:"+strings.ReplaceAll(name, ".", `\.`)).Exists()
}

// Allows reports whether an annotation of the object is "true" and was set in the cluster by a
// field manager that is not one of Orrery's. An annotation from a space allows nothing.
func (m *Meta) Allows(annotation string) bool {
	return m.Annotations[annotation] == "true" && slices.ContainsFunc(m.ManagedFields, func(f ManagedFields) bool {
		return !strings.HasPrefix(f.Manager, managerPrefix) && f.Manager != ReleasedManager && f.hasAnnotation(annotation)
	})
}

// ReleasedManager is the field manager that owns released values until another writer changes them.
const ReleasedManager = "orrery-released"

// Released reports whether ReleasedManager owns fields of the object.
func (m *Meta) Released() bool {
	for i := range m.ManagedFields {
		if m.ManagedFields[i].AppliedBy(ReleasedManager) {
			return true
		}
	}
	return false
}

// Written reports whether the location's manager has written the object, in any API group.
func (m *Meta) Written(l Owner) bool {
	for i := range m.ManagedFields {
		if m.ManagedFields[i].Manager == l.Manager() && m.ManagedFields[i].Subresource == "" {
			return true
		}
	}
	return false
}

// Orphan reports whether the object is to be orphaned when it is removed.
func (m *Meta) Orphan() bool {
	return m.Annotations[v1alpha1.OnRemoveAnnotation] == onRemoveOrphan
}

// Account returns the ServiceAccount that the agent impersonates for the object; empty for the
// agent itself.
func (m *Meta) Account() string { return m.Annotations[v1alpha1.ServiceAccountAnnotation] }

// Selector returns a label selector for the objects of the owner's location.
func (l Owner) Selector() string { return v1alpha1.LocationLabel + "=" + string(l) }
