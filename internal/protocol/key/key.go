// Package key names the things of the log: spaces, locations, and the key of
// every object, report, marker, enrolment and token below the hub's etcd prefix.
//
// The space of an object is in its key and nowhere else, so the functions here
// are the only ones that may compose or take apart a key. The package must
// never know what is stored under a key.
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

// Location is the name of a location. In frames, objects and requests it is text, as a
// space's is, and becomes a name where that is read; ValidateName says whether it is one.
type Location string

// Key is the key of the Space object. The space root has no such object.
func (s Space) Key() string { return inRoot(Spaces, string(s)) }

// Key is the key of the Location object.
func (l Location) Key() string { return inRoot(Locations, string(l)) }

func inRoot(r Resource, name string) string {
	return Object{Space: Root, Identity: Identity{Resource: r, Name: name}}.Key()
}

// OwnershipMark is the value of the label by which an agent finds what it created for the
// location with a UID: NAME.UID8.
func OwnershipMark(l Location, uid string) string {
	const short = 8
	return string(l) + "." + uid[:min(short, len(uid))]
}

// ValidateMark returns an error unless a text is an OwnershipMark.
func ValidateMark(mark string) error {
	name, uid, _ := strings.Cut(mark, ".")
	if ValidateName(name) != nil || !mark8.MatchString(uid) {
		return fmt.Errorf("%q: want NAME.UID8, the value of the label orrery.dev/location at a cluster, such as berlin.0a1b2c3d", mark)
	}
	return nil
}

var mark8 = regexp.MustCompile(`^[0-9a-f]{8}$`)

// MarkedLocation is the location that an OwnershipMark names, whichever its UID.
func MarkedLocation(mark string) Location {
	name, _, _ := strings.Cut(mark, ".")
	return Location(name)
}

const (
	// Root is the operators' space: Space and Location objects live in it.
	Root Space = "root"
	// AllSpaces is the wildcard of paths that read every space.
	AllSpaces Space = "*"
	// AllLocations is the wildcard of paths that read what all locations report.
	AllLocations Location = "*"
	// CoreGroup stands for the empty API group in keys.
	CoreGroup = "core"

	maxNameLength = 40
)

// Class is the first segment of a key: what kind of thing it holds.
type Class string

const (
	// Objects holds what users store: o/SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME.
	Objects Class = "o"
	// Reports holds what locations report: r/LOCATION/SPACE/ORIGIN/GROUP/RESOURCE/[NAMESPACE/]NAME.
	Reports Class = "r"
	// Markers holds one random marker per hub start: m/MARKER.
	Markers Class = "m"
	// Enrolments holds hashed join tokens: e/LOCATION.
	Enrolments Class = "e"
	// Tokens holds hashed tokens of people and programs: t/ID.
	Tokens Class = "t"
)

// ClassOf is the class of a key.
func ClassOf(k string) Class {
	class, _, _ := strings.Cut(k, "/")
	return Class(class)
}

// Prefix is the prefix of all keys of a class.
func (c Class) Prefix() string { return string(c) + "/" }

// ValidateName says why a space's or location's name is not allowed; nil if it is.
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

// NewResource takes an API group as Kubernetes writes it ("" for core).
func NewResource(group, resource string) Resource {
	if group == "" {
		group = CoreGroup
	}
	return Resource{Group: group, Resource: resource}
}

// APIGroup is the group as Kubernetes writes it ("" for core).
func (r Resource) APIGroup() string {
	if r.Group == CoreGroup {
		return ""
	}
	return r.Group
}

// String is GROUP/RESOURCE.
func (r Resource) String() string { return r.Group + "/" + r.Resource }

// Concealed says that not everybody who may read a space may know which objects of the
// resource there are: the role view leaves them out. What is told to all who read a policy
// or a Location, as its status is, has none of their names.
func (r Resource) Concealed() bool { return r == Secrets }

// SplitVersion takes apart GROUP/VERSION, or VERSION in the core group.
func SplitVersion(groupVersion string) (group, version string) {
	group, version, ok := strings.Cut(groupVersion, "/")
	if !ok {
		return "", groupVersion
	}
	return group, version
}

// Identity is what an object is called within one API: its resource, namespace
// (empty when cluster-scoped) and name. It is the same in a space and at a location, unless
// that is Prefixed.
type Identity struct {
	Resource
	Namespace string
	Name      string
}

// String is GROUP/RESOURCE/[NAMESPACE/]NAME.
func (i Identity) String() string {
	if i.Namespace == "" {
		return i.Group + "/" + i.Resource.Resource + "/" + i.Name
	}
	return i.Group + "/" + i.Resource.Resource + "/" + i.Namespace + "/" + i.Name
}

// ParseIdentity takes apart GROUP/RESOURCE/[NAMESPACE/]NAME.
func ParseIdentity(id string) (Identity, error) {
	o, err := ParseIn("-", id)
	return o.Identity, err
}

// ParseIn takes apart GROUP/RESOURCE/[NAMESPACE/]NAME, which is of a space.
func ParseIn(s Space, id string) (Object, error) { return ParsePath(PathPrefix(s) + id) }

// Validate refuses segments that could change the meaning of a key.
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

// Path is SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME: the object's key in the agents' protocol.
func (o Object) Path() string { return string(o.Space) + "/" + o.Identity.String() }

// Key is the key of the object below the hub's prefix.
func (o Object) Key() string { return OfPath(o.Path()) }

// ParseObject takes apart an object's key.
func ParseObject(k string) (Object, error) {
	path, ok := PathOf(k)
	if !ok {
		return Object{}, fmt.Errorf("key %q: not an object's key", k)
	}
	return ParsePath(path)
}

// ParsePath takes apart SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME.
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

// Split takes apart an object's key, or the beginning of one, without allocating: rest
// is [NAMESPACE/]NAME. It returns false for a key of another class.
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

// ResourceOf is the GROUP/RESOURCE of an object's key, or of a prefix of keys that goes
// on behind it, without a copy; false if there is none.
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

// SplitName takes apart [NAMESPACE/]NAME.
func SplitName(rest string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(rest, "/"); ok {
		return namespace, name
	}
	return "", rest
}

// PathOf is the path of an object's key; false for a key of another class.
func PathOf(k string) (path string, ok bool) { return strings.CutPrefix(k, string(Objects)+"/") }

// OfPath is the key of the object of a path.
func OfPath(path string) string { return string(Objects) + "/" + path }

// LocationOf is the location that a key of a Location, of an enrolment, of a session or of
// what an agent says is about.
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

// EnrolmentOf is the location that a key of an enrolment is about.
func EnrolmentOf(k string) (Location, bool) {
	l, ok := strings.CutPrefix(k, string(Enrolments)+"/")
	return Location(l), ok
}

// MarkerOf is the marker that a key is about.
func MarkerOf(k string) (string, bool) { return strings.CutPrefix(k, string(Markers)+"/") }

// Origin tells reports about placed objects from those born at a location.
type Origin string

const (
	// Placed reports are about objects that the hub assigned.
	Placed Origin = "placed"
	// Born reports are about objects that came to be at the location.
	Born Origin = "born"
	// Owned reports are about objects that belong to placed ones at the location.
	Owned Origin = "owned"
)

// Report identifies one location's report of one object.
type Report struct {
	Location Location
	Origin   Origin
	Object
}

// Key is the key of the report below the hub's prefix.
func (r Report) Key() string {
	return string(Reports) + "/" + string(r.Location) + "/" + string(r.Space) + "/" + string(r.Origin) + "/" + r.Identity.String()
}

// Line is the report's key in the agents' protocol: the path of its object, after ~ORIGIN: if
// it is not Placed. In order, Placed reports come first. No space has a name that begins like
// that, so an agent or hub that knows Placed reports only takes no other for one of them.
func (r Report) Line() string {
	if r.Origin == Placed {
		return r.Path()
	}
	return LinePrefix(r.Origin) + r.Path()
}

// LinePrefix is what the Lines of all reports of an origin begin with.
func LinePrefix(o Origin) string {
	if o == Placed {
		return ""
	}
	return otherOrigin + string(o) + ":"
}

// otherOrigin begins the Lines of all reports that are not Placed.
const otherOrigin = "~"

// ParseLine takes apart a Line of a location's report.
func ParseLine(l Location, line string) (Report, error) {
	r := Report{Location: l, Origin: Placed}
	path := line
	if other, ok := strings.CutPrefix(line, otherOrigin); ok {
		var origin string
		origin, path, _ = strings.Cut(other, ":")
		if r.Origin = Origin(origin); r.Origin != Born && r.Origin != Owned {
			return Report{}, fmt.Errorf("report %q: unknown origin", line)
		}
	}
	var err error
	r.Object, err = ParsePath(path)
	return r, err
}

// ParseReport takes apart a report's key.
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

// ReportOf is the location and space of a report's key, and the GROUP/RESOURCE that it is
// about, without a copy. It returns false for a key of another class.
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

// ReportPrefix is the prefix of all reports of a location about objects of an origin and a
// resource of a space.
func ReportPrefix(l Location, s Space, origin Origin, r Resource) string {
	return SpaceReports(l, s) + string(origin) + "/" + r.String() + "/"
}

// About is the resource of the object that an object key or a report key is about, without
// a copy. It returns false for a key of another class.
func About(k string) (r Resource, ok bool) {
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

// Marker is the key of a hub marker.
func Marker(marker string) string { return string(Markers) + "/" + marker }

// Enrolment is the key of a location's enrolment.
func Enrolment(l Location) string { return string(Enrolments) + "/" + string(l) }

// Token is the key of the token with an ID.
func Token(id string) string { return string(Tokens) + "/" + id }

// TokenOf is the ID of the token that a key is of.
func TokenOf(k string) (id string, ok bool) { return strings.CutPrefix(k, string(Tokens)+"/") }

// The prefixes below end in "/" so that no name can be a prefix of another.

// PathPrefix is the prefix of the paths of all objects of a space.
func PathPrefix(s Space) string { return string(s) + "/" }

// SpacePrefix is the prefix of all objects of a space.
func SpacePrefix(s Space) string { return string(Objects) + "/" + string(s) + "/" }

// ResourcePrefix is the prefix of all objects of a resource in a space.
func ResourcePrefix(s Space, r Resource) string { return SpacePrefix(s) + r.String() + "/" }

// NamespacePrefix is the prefix of all objects of a resource in a namespace of a space.
func NamespacePrefix(s Space, r Resource, namespace string) string {
	return ResourcePrefix(s, r) + namespace + "/"
}

// After is the first key after all keys that begin with a prefix.
func After(prefix string) string { return strings.TrimSuffix(prefix, "/") + "0" } // "0" follows "/"

// LocationReports is the prefix of all reports of a location.
func LocationReports(l Location) string { return string(Reports) + "/" + string(l) + "/" }

// SpaceReports is the prefix of all reports of a location about objects of a space.
func SpaceReports(l Location, s Space) string { return LocationReports(l) + string(s) + "/" }

// OriginReports is the prefix of the reports of an origin that a location has about objects of
// a space.
func OriginReports(l Location, s Space, o Origin) string {
	return SpaceReports(l, s) + string(o) + "/"
}

// The resources whose objects the hub itself acts on.
var (
	Spaces                 = Resource{"orrery.dev", "spaces"}
	Locations              = Resource{"orrery.dev", "locations"}
	Placements             = Resource{"orrery.dev", "placements"}
	Customizers            = Resource{"orrery.dev", "customizers"}
	Summaries              = Resource{"orrery.dev", "summaries"}
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
