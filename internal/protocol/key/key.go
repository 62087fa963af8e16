// Package key defines the keys of the log: the key of each space, location, object, report, hub
// marker, enrolment and token below the hub's etcd prefix.
//
// The space of an object is stored only in its key, so only the functions of this package may
// compose or parse a key. The package must not depend on the value of a key.
package key

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
)

// Space is the name of a space, or AllSpaces.
type Space string

// Location is the name of a location. Frames, objects and requests contain it as a string, which
// becomes a Location where it is parsed. ValidateName reports whether it is valid.
type Location string

// Key returns the key of the Space object. The space root has no such object.
func (s Space) Key() string { return inRoot(Spaces, string(s)) }

// Key returns the key of the Location object.
func (l Location) Key() string { return inRoot(Locations, string(l)) }

func inRoot(r Resource, name string) string {
	return Object{Space: Root, Identity: Identity{Resource: r, Name: name}}.Key()
}

// OwnershipMark returns the value of LocationLabel on objects that the agent of a location with
// this UID created: NAME.UID8.
func OwnershipMark(l Location, uid string) string {
	const short = 8
	return string(l) + "." + uid[:min(short, len(uid))]
}

// ValidateMark returns an error unless mark is an OwnershipMark.
func ValidateMark(mark string) error {
	name, uid, _ := strings.Cut(mark, ".")
	if ValidateName(name) != nil || !mark8.MatchString(uid) {
		return fmt.Errorf("%q: want NAME.UID8, the value of the label orrery.dev/location at a cluster, such as berlin.0a1b2c3d", mark)
	}
	return nil
}

var mark8 = regexp.MustCompile(`^[0-9a-f]{8}$`)

// MarkedLocation returns the location in an OwnershipMark, for any UID.
func MarkedLocation(mark string) Location {
	name, _, _ := strings.Cut(mark, ".")
	return Location(name)
}

const (
	// Root is the administrators' space, which contains the Space and Location objects.
	Root Space = "root"
	// AllSpaces is the wildcard of paths that read every space.
	AllSpaces Space = "*"
	// AllLocations is the wildcard of paths that read the reports of all locations.
	AllLocations Location = "*"
	// CoreGroup replaces the empty API group in keys.
	CoreGroup = "core"

	maxNameLength = 40
)

// Class is the first segment of a key, which defines the kind of its value.
type Class string

const (
	// Objects contains the objects of users: o/SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME.
	Objects Class = "o"
	// Reports contains the reports of locations:
	// r/LOCATION/SPACE/ORIGIN/GROUP/RESOURCE/[NAMESPACE/]NAME.
	Reports Class = "r"
	// Markers contains one random log epoch for each start of a hub: m/MARKER.
	Markers Class = "m"
	// Enrolments contains hashed join tokens: e/LOCATION.
	Enrolments Class = "e"
	// Tokens contains hashed tokens of users and programs: t/ID.
	Tokens Class = "t"
)

// ClassOf returns the class of a key.
func ClassOf(k string) Class {
	class, _, _ := strings.Cut(k, "/")
	return Class(class)
}

// Prefix returns the prefix of all keys of a class.
func (c Class) Prefix() string { return string(c) + "/" }

// ValidateName returns the reason why the name of a space or location is invalid; nil if it is
// valid.
func ValidateName(name string) error {
	if len(name) > maxNameLength {
		return fmt.Errorf("name %q: must be no more than %d characters", name, maxNameLength)
	}
	if problems := utilvalidation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("name %q: %s", name, strings.Join(problems, "; "))
	}
	if strings.Contains(name, "--") {
		return fmt.Errorf("name %q: must not contain \"--\"", name)
	}
	return nil
}

// Resource is a group and a plural resource name; the core group is "core".
type Resource struct {
	Group    string
	Resource string
}

// NewResource returns the resource of an API group in the form of Kubernetes ("" for core).
func NewResource(group, resource string) Resource {
	if group == "" {
		group = CoreGroup
	}
	return Resource{Group: group, Resource: resource}
}

// APIGroup returns the group in the form of Kubernetes ("" for core).
func (r Resource) APIGroup() string {
	if r.Group == CoreGroup {
		return ""
	}
	return r.Group
}

// String returns GROUP/RESOURCE.
func (r Resource) String() string { return r.Group + "/" + r.Resource }

// Concealed reports whether the names of the resource's objects are hidden from readers with the
// role view. Data for all readers of a policy or Location, such as its status, does not contain
// these names.
func (r Resource) Concealed() bool { return r == Secrets }

// SplitVersion splits GROUP/VERSION, or VERSION in the core group.
func SplitVersion(groupVersion string) (group, version string) {
	group, version, ok := strings.Cut(groupVersion, "/")
	if !ok {
		return "", groupVersion
	}
	return group, version
}

// Identity identifies an object within one API: by resource, namespace (empty if cluster-scoped)
// and name. It is the same in a space and at a location, unless namespaces are Prefixed there.
type Identity struct {
	Resource
	Namespace string
	Name      string
}

// String returns GROUP/RESOURCE/[NAMESPACE/]NAME.
func (i Identity) String() string {
	if i.Namespace == "" {
		return i.Group + "/" + i.Resource.Resource + "/" + i.Name
	}
	return i.Group + "/" + i.Resource.Resource + "/" + i.Namespace + "/" + i.Name
}

// ParseIdentity parses GROUP/RESOURCE/[NAMESPACE/]NAME.
func ParseIdentity(id string) (Identity, error) {
	o, err := ParseIn("-", id)
	return o.Identity, err
}

// ParseIn parses GROUP/RESOURCE/[NAMESPACE/]NAME of an object in a space.
func ParseIn(s Space, id string) (Object, error) { return ParsePath(PathPrefix(s) + id) }

// Validate rejects segments that could change the meaning of a key.
func (i Identity) Validate() error {
	if slices.Contains([]string{i.Group, i.Resource.Resource, i.Name}, "") {
		return fmt.Errorf("key %q: empty segment", i.String())
	}
	for _, s := range []string{i.Group, i.Resource.Resource, i.Namespace, i.Name} {
		if problems := content.IsPathSegmentName(s); len(problems) > 0 {
			return fmt.Errorf("key segment %q: %s", s, strings.Join(problems, "; "))
		}
	}
	return nil
}

// Object identifies one object in the log.
type Object struct {
	Space Space
	Identity
}

// Path returns SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME: the key of the object in the agent protocol.
func (o Object) Path() string { return string(o.Space) + "/" + o.Identity.String() }

// Key returns the key of the object below the hub's prefix.
func (o Object) Key() string { return OfPath(o.Path()) }

// ParseObject parses the key of an object.
func ParseObject(k string) (Object, error) {
	path, ok := PathOf(k)
	if !ok {
		return Object{}, fmt.Errorf("key %q: not an object's key", k)
	}
	return ParsePath(path)
}

// ParsePath parses SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME.
func ParsePath(p string) (Object, error) {
	if n := strings.Count(p, "/"); n != 3 && n != 4 {
		return Object{}, fmt.Errorf("object path %q: want SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME", p)
	}
	var o Object
	var rest string
	o.Space, o.Resource, rest = cut(p)
	o.Namespace, o.Name = SplitName(rest)
	return o, nil
}

// Split splits the key of an object, or a prefix of one, without allocating: rest is
// [NAMESPACE/]NAME. It returns false for a key of another class.
func Split(k string) (s Space, r Resource, rest string, ok bool) {
	path, ok := PathOf(k)
	if !ok {
		return "", Resource{}, "", false
	}
	s, r, rest = cut(path)
	return s, r, rest, true
}

func cut(path string) (s Space, r Resource, rest string) {
	space, rest, _ := strings.Cut(path, "/")
	r.Group, rest, _ = strings.Cut(rest, "/")
	r.Resource, rest, _ = strings.Cut(rest, "/")
	return Space(space), r, rest
}

// ResourceOf returns the GROUP/RESOURCE in the key of an object, or in a longer prefix, without
// copying; false if there is none.
func ResourceOf(k string) (text string, ok bool) {
	path, ok := PathOf(k)
	if !ok {
		return "", false
	}
	_, rest, _ := strings.Cut(path, "/")
	i := strings.IndexByte(rest, '/')
	if i < 0 {
		return "", false
	}
	j := strings.IndexByte(rest[i+1:], '/')
	if j < 0 {
		return "", false
	}
	return rest[:i+1+j], true
}

// SplitName splits [NAMESPACE/]NAME.
func SplitName(rest string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(rest, "/"); ok {
		return namespace, name
	}
	return "", rest
}

// PathOf returns the path in the key of an object; false for a key of another class.
func PathOf(k string) (path string, ok bool) { return strings.CutPrefix(k, string(Objects)+"/") }

// OfPath returns the key of the object with a path.
func OfPath(path string) string { return string(Objects) + "/" + path }

// LocationOf returns the location in the key of a Location, an enrolment, a session or an agent
// status.
func LocationOf(k string) (Location, bool) {
	if l, ok := EnrolmentOf(k); ok {
		return l, true
	}
	if s, ok := SessionOf(k); ok {
		return s.Location, true
	}
	s, r, name, ok := Split(k)
	return Location(name), ok && s == Root && r == Locations
}

// EnrolmentOf returns the location in the key of an enrolment.
func EnrolmentOf(k string) (Location, bool) {
	l, ok := strings.CutPrefix(k, string(Enrolments)+"/")
	return Location(l), ok
}

// MarkerOf returns the marker in a key.
func MarkerOf(k string) (string, bool) { return strings.CutPrefix(k, string(Markers)+"/") }

// Origin distinguishes reports about placed objects from those about other objects at a location.
type Origin string

const (
	// Placed reports describe objects that the hub assigned.
	Placed Origin = "placed"
	// Upsynced reports describe objects that were created at the location.
	Upsynced Origin = "born"
	// Owned reports describe objects at the location that placed objects own.
	Owned Origin = "owned"
)

// Report identifies one location's report of one object.
type Report struct {
	Location Location
	Origin   Origin
	Object
}

// Key returns the key of the report below the hub's prefix.
func (r Report) Key() string {
	return string(Reports) + "/" + string(r.Location) + "/" + string(r.Space) + "/" + string(r.Origin) + "/" + r.Identity.String()
}

// Line returns the key of the report in the agent protocol: the path of its object, with the prefix
// ~ORIGIN: unless it is Placed. Placed reports sort first. No space name starts with ~, so a hub or
// agent of an older version does not mistake another report for a Placed one.
func (r Report) Line() string {
	if r.Origin == Placed {
		return r.Path()
	}
	return LinePrefix(r.Origin) + r.Path()
}

// LinePrefix returns the prefix of the Lines of all reports with an origin.
func LinePrefix(o Origin) string {
	if o == Placed {
		return ""
	}
	return otherOrigin + string(o) + ":"
}

// otherOrigin starts the Lines of all reports that are not Placed.
const otherOrigin = "~"

// ParseLine parses the Line of a location's report.
func ParseLine(l Location, line string) (Report, error) {
	r := Report{Location: l, Origin: Placed}
	path := line
	if other, ok := strings.CutPrefix(line, otherOrigin); ok {
		var origin string
		origin, path, _ = strings.Cut(other, ":")
		if r.Origin = Origin(origin); r.Origin != Upsynced && r.Origin != Owned {
			return Report{}, fmt.Errorf("report %q: unknown origin", line)
		}
	}
	var err error
	r.Object, err = ParsePath(path)
	return r, err
}

// ParseReport parses the key of a report.
func ParseReport(k string) (Report, error) {
	s := strings.SplitN(k, "/", 5)
	if len(s) != 5 || s[0] != string(Reports) {
		return Report{}, fmt.Errorf("key %q: not a report's key", k)
	}
	o, err := ParsePath(s[2] + "/" + s[4])
	if err != nil {
		return Report{}, err
	}
	return Report{Location: Location(s[1]), Origin: Origin(s[3]), Object: o}, nil
}

// ReportOf returns the location, space and GROUP/RESOURCE in the key of a report, without copying.
// It returns false for a key of another class.
func ReportOf(k string) (l Location, s Space, resource string, ok bool) {
	class, rest, _ := strings.Cut(k, "/")
	if Class(class) != Reports {
		return "", "", "", false
	}
	location, rest, _ := strings.Cut(rest, "/")
	space, rest, _ := strings.Cut(rest, "/")
	_, rest, _ = strings.Cut(rest, "/") // the origin
	group := strings.IndexByte(rest, '/')
	if group < 0 {
		return "", "", "", false
	}
	end := strings.IndexByte(rest[group+1:], '/')
	if end < 0 {
		return "", "", "", false
	}
	return Location(location), Space(space), rest[:group+1+end], true
}

// ReportPrefix returns the prefix of all reports of a location about objects with an origin and
// resource in a space.
func ReportPrefix(l Location, s Space, origin Origin, r Resource) string {
	return SpaceReports(l, s) + string(origin) + "/" + r.String() + "/"
}

// SubjectOf returns the resource in the key of an object or report, without copying. It returns false
// for a key of another class.
func SubjectOf(k string) (r Resource, ok bool) {
	class, rest, _ := strings.Cut(k, "/")
	before := 1 // the space
	switch Class(class) {
	case Objects:
	case Reports:
		before = 3 // location, space and origin
	default:
		return r, false
	}
	for range before {
		if _, rest, ok = strings.Cut(rest, "/"); !ok {
			return r, false
		}
	}
	r.Group, rest, _ = strings.Cut(rest, "/")
	r.Resource, _, ok = strings.Cut(rest, "/")
	return r, ok
}

// Marker returns the key of a hub marker.
func Marker(marker string) string { return string(Markers) + "/" + marker }

// Enrolment returns the key of a location's enrolment.
func Enrolment(l Location) string { return string(Enrolments) + "/" + string(l) }

// Token returns the key of the token with an ID.
func Token(id string) string { return string(Tokens) + "/" + id }

// TokenOf returns the ID in the key of a token.
func TokenOf(k string) (id string, ok bool) { return strings.CutPrefix(k, string(Tokens)+"/") }

// The prefixes below end in "/", so that no name is a prefix of another.

// PathPrefix returns the prefix of the paths of all objects in a space.
func PathPrefix(s Space) string { return string(s) + "/" }

// SpacePrefix returns the prefix of the keys of all objects in a space.
func SpacePrefix(s Space) string { return string(Objects) + "/" + string(s) + "/" }

// ResourcePrefix returns the prefix of the keys of all objects of a resource in a space.
func ResourcePrefix(s Space, r Resource) string { return SpacePrefix(s) + r.String() + "/" }

// NamespacePrefix returns the prefix of the keys of all objects of a resource in a namespace.
func NamespacePrefix(s Space, r Resource, namespace string) string {
	return ResourcePrefix(s, r) + namespace + "/"
}

// After returns the first key after all keys with a prefix.
func After(prefix string) string { return strings.TrimSuffix(prefix, "/") + "0" } // "0" follows "/"

// LocationReports returns the prefix of all reports of a location.
func LocationReports(l Location) string { return string(Reports) + "/" + string(l) + "/" }

// SpaceReports returns the prefix of all reports of a location about objects in a space.
func SpaceReports(l Location, s Space) string { return LocationReports(l) + string(s) + "/" }

// OriginReports returns the prefix of the reports of a location about objects in a space with an
// origin.
func OriginReports(l Location, s Space, o Origin) string {
	return SpaceReports(l, s) + string(o) + "/"
}

// The resources whose objects the hub itself processes.
var (
	Spaces                 = Resource{"orrery.dev", "spaces"}
	Locations              = Resource{"orrery.dev", "locations"}
	Placements             = Resource{"orrery.dev", "placements"}
	Customizers            = Resource{"orrery.dev", "customizers"}
	Summaries              = Resource{"orrery.dev", "summaries"}
	KindRules              = Resource{"orrery.dev", "kindrules"}
	ConfigMaps             = Resource{CoreGroup, "configmaps"}
	StatefulSets           = Resource{"apps", "statefulsets"}
	PersistentVolumeClaims = Resource{CoreGroup, "persistentvolumeclaims"}
	Grants                 = Resource{"orrery.dev", "grants"}
	APIExports             = Resource{"orrery.dev", "apiexports"}
	APIBindings            = Resource{"orrery.dev", "apibindings"}
	APIExportViews         = Resource{"orrery.dev", "apiexportviews"}
	Namespaces             = Resource{CoreGroup, "namespaces"}
	CRDs                   = Resource{"apiextensions.k8s.io", "customresourcedefinitions"}
	Secrets                = Resource{CoreGroup, "secrets"}
)
