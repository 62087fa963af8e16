package placement

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// thing is one value of a test's state, before it is JSON.
type thing struct {
	createRev   int64
	uid         string
	deleting    bool
	finalized   bool // with deleting: a client's finalizer keeps it
	labels      map[string]string
	annotations map[string]string
	spec        any
	data        map[string]string
	status      any
	report      *wire.Report
	// refers are the references of the object; pulled is the field of a ServiceAccount with
	// references.
	refers []key.Identity
	pulled []any
	// managers are the owners of its fields.
	managers []manager
}

func (x *thing) value() []byte {
	if x.report != nil {
		return mustJSON(x.report)
	}
	metadata := map[string]any{"uid": x.uid}
	if x.deleting {
		metadata["deletionTimestamp"] = "2030-01-01T00:00:00Z"
	}
	if x.finalized {
		metadata["finalizers"] = []string{"example.com/f"}
	}
	if x.labels != nil {
		metadata["labels"] = x.labels
	}
	if x.annotations != nil {
		metadata["annotations"] = x.annotations
	}
	if x.managers != nil {
		metadata["managedFields"] = x.managedFields()
	}
	object := map[string]any{"metadata": metadata}
	if x.spec != nil {
		object["spec"] = x.spec
	}
	if x.data != nil {
		object["data"] = x.data
	}
	if x.status != nil {
		object["status"] = x.status
	}
	if x.pulled != nil {
		object["imagePullSecrets"] = x.pulled
	}
	return mustJSON(object)
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// world is a whole state by key.
type world map[string]*thing

func objectAt(space key.Space, group, resource, namespace, name string) key.Object {
	return key.Object{Space: space, Identity: key.Identity{Resource: key.NewResource(group, resource), Namespace: namespace, Name: name}}
}

func locationAt(l key.Location) key.Object {
	return objectAt(key.Root, v1alpha1.Group, "locations", "", string(l))
}

func spaceAt(s key.Space) key.Object {
	return objectAt(key.Root, v1alpha1.Group, "spaces", "", string(s))
}

func placementAt(space key.Space, name string) key.Object {
	return objectAt(space, v1alpha1.Group, "placements", "", name)
}

func customizerAt(space key.Space, name string) key.Object {
	return objectAt(space, v1alpha1.Group, "customizers", "", name)
}

// The universe of the random tests: small, so that things meet.
var (
	worldSpaces      = []key.Space{"s1", "s2", "s3"}
	worldLocations   = []key.Location{"a", "b", "c"}
	worldCustomizers = []string{"p", "r", "s", "t"}
	worldPaths       = []string{"$.data.x", "$.data", "$.spec[*].x", "$.spec['x']"}
)

// worldNeeds is the path of rules that need the label k of a location.
const worldNeeds = "$.data.x"

// worldOfSpace is the path of rules that need the label k of their space.
const worldOfSpace = "$.spec['x']"

// worldOfData is the path of rules that need the data of all ConfigMaps of the Customizer
// everywhere, and of the second of them with the label k of each location.
const worldOfData = "$.spec[*].x"

// worldRules has renderings follow what is not released.
func worldRules(c Customized) (rules Rules) {
	if c.Spec == nil { // the templates of an object
		switch gjson.GetBytes(c.Object, "data.a").String() {
		case "1":
			return Rules{Text: "own", Needs: func(loc Site) string { return loc.Labels.Get("k") }}
		case "2":
			return Rules{Text: "own of " + c.Labels.Get("k")}
		}
		return Rules{}
	}
	for _, r := range c.Spec.Rules {
		if r.Release {
			continue
		}
		rules.Text += r.Path + ";"
		switch r.Path {
		case worldOfSpace:
			rules.Text += c.Labels.Get("k") + ";"
		case worldNeeds:
			rules.Needs = func(loc Site) string { return loc.Labels.Get("k") + loc.Properties }
		case worldOfData:
			rules.Text += strings.Join(c.Data, "+") + ";"
			if len(c.Data) > 1 && rules.Needs == nil {
				rules.Needs = func(loc Site) string { return loc.Labels.Get("k") + c.Data[1] }
			}
		}
	}
	return rules
}

// focus selects the events of a world: all, or mostly those of conflicting spaces.
type focus struct {
	kinds   []string
	objects []key.Object
	// assigned is the share, of three, of objects that are assigned directly.
	assigned int
	// follows limits Placements mostly to objects with references, which are followed.
	follows bool
	// binds makes Placements follow references to CRDs, and locations admit only some spaces.
	binds bool
	// placers are the spaces that have Placements.
	placers []key.Space
}

func everything() focus {
	return focus{
		kinds:   []string{spacing, locating, placing, placing, customizing, reporting, writing, writing},
		objects: worldObjects(), assigned: 1, placers: append(worldSpaces[:3:3], key.Root),
	}
}

func competition() focus {
	f := focus{kinds: []string{spacing, locating, reporting, reporting, reporting, writing, writing, writing}, assigned: 3}
	for _, s := range worldSpaces {
		f.objects = append(f.objects, objectAt(s, "", "configmaps", "n1", "x"), objectAt(s, "", "namespaces", "", "n1"))
	}
	return f
}

// definitionsMeet is competition about definitions, with what they define.
func definitionsMeet() focus {
	f := focus{kinds: []string{spacing, locating, reporting, reporting, rebinding, writing, writing, writing, writing}, assigned: 3}
	for _, s := range worldSpaces {
		f.objects = append(f.objects, objectAt(s, "example.com", "widgets", "n1", "x"), objectAt(s, "apiextensions.k8s.io", "customresourcedefinitions", "", "widgets.example.com"))
	}
	return f
}

// followers is one space of objects that refer to each other.
func followers() focus {
	f := focus{kinds: []string{spacing, locating, placing, placing, reporting, writing, writing, writing}, follows: true, placers: []key.Space{"s1", key.Root}}
	for _, o := range worldObjects() {
		if o.Space == "s1" && o.Group != "coordination.k8s.io" && o.Resource.Resource != "events" {
			f.objects = append(f.objects, o)
		}
	}
	return f
}

// reaching is where Placements of root reach spaces that come, go and change.
func reaching() focus {
	return focus{
		kinds:   []string{spacing, spacing, spacing, locating, placing, placing, reporting, writing},
		objects: worldObjects(), placers: []key.Space{"s1", key.Root, key.Root},
	}
}

const (
	spacing     = "space"
	locating    = "location"
	placing     = "placement"
	customizing = "customizer"
	reporting   = "report"
	writing     = "object"
)

func worldObjects() (all []key.Object) {
	for _, s := range worldSpaces {
		all = append(all,
			objectAt(s, "", "namespaces", "", "n1"), objectAt(s, "", "namespaces", "", "n2"),
			objectAt(s, "", "configmaps", "n1", "x"), objectAt(s, "", "configmaps", "n1", "xy"), objectAt(s, "", "configmaps", "n2", "x"),
			objectAt(s, "apps", "deployments", "n1", "x"), objectAt(s, "rbac.authorization.k8s.io", "clusterroles", "", "x"),
			objectAt(s, "", "events", "n1", "x"), objectAt(s, "coordination.k8s.io", "leases", "n1", "x"),
			objectAt(s, "", "secrets", "n1", "x"), objectAt(s, "", "serviceaccounts", "n1", "x"),
			objectAt(s, "", "resourcequotas", "n1", "x"),
			objectAt(s, "example.com", "widgets", "n1", "x"), objectAt(s, "apiextensions.k8s.io", "customresourcedefinitions", "", "widgets.example.com"),
		)
	}
	return append(all, objectAt(key.Root, "", "configmaps", "n1", "x"))
}

// updates are the whole world as a table takes it.
func (w world) updates(rev int64) []table.Update {
	var all []table.Update
	for _, k := range slices.Sorted(maps.Keys(w)) {
		all = append(all, table.Update{Key: k, Value: w[k].value(), CreateRev: w[k].createRev, ModRev: rev})
	}
	return all
}

// describe is a Membership as text.
func describe(in table.Membership) string {
	m, ok := in.(*Membership)
	if !ok {
		return "-"
	}
	way, from := m.Returns()
	var reasons []string
	for _, l := range m.Refused() {
		reasons = append(reasons, m.Refusal(l))
	}
	return fmt.Sprintf("%s placed by %v, waits %v, left to %v, refused by %v for %v, status %s from %q by %v", placesText(m.Places()), m.Placements(), m.Waits(), m.yields, m.Refused(), reasons, way, from, m.Asking())
}

func placesText(places []Place) string {
	var all []string
	for _, p := range places {
		all = append(all, fmt.Sprintf("%+v", p))
	}
	return strings.Join(all, " ")
}
