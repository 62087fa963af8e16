package read

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/jsonscan"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// reported is the part of a row in the view of reports that is not in the report. It has the place
// of a membership, and belongs to one request.
type reported struct {
	location key.Location
	origin   key.Origin
	// object identifies the object that the report is about.
	object key.Object
	// source is the row of that object, if it is placed and still assigned to the location;
	// otherwise nil.
	source *table.Row

	account *account // parsed on demand
}

var _ table.Membership = &reported{}

// Locations implements table.Membership: the row is assigned to no location.
func (*reported) Locations() []key.Location { return nil }

// Includes implements table.Membership.
func (*reported) Includes(key.Location) bool { return false }

// SameAt implements table.Membership.
func (*reported) SameAt(key.Location, table.Membership) bool { return true }

// account is the parsed report without the status or object that it contains.
type account struct {
	objectstate.Status
	uid, generation, health, healthNote, owner string
}

// reportComposer composes the objects of one kind in the view of reports: a report, with the content of
// its source. It only reads; what it returns depends on the row and on the Location. It belongs to one
// request.
type reportComposer struct {
	table    *table.Table
	renderer *render.Renderer
	kind     *kinds.Kind
	// wide has the parts that the names of objects in the view have besides their own.
	wide key.Wide
}

// accountOf returns the report of a row, with the state that follows from the desired object.
func (r *reportComposer) accountOf(row *table.Row) *account {
	o := row.In.(*reported)
	if o.account != nil {
		return o.account
	}
	t := &account{}
	report := row.Report()
	gjson.ParseBytes(report).ForEach(func(name, value gjson.Result) bool {
		switch name.Str {
		case "uid":
			t.uid = value.String()
		case "generation":
			t.generation = value.Raw
		case "state":
			t.State = wire.State(value.String())
		case "reason":
			t.Reason = value.String()
		case "message":
			t.Message = value.String()
		case "since":
			t.Since = value.String()
		case "health":
			t.health = value.String()
		case "healthNote":
			t.healthNote = value.String()
		case "diagnosis":
			t.healthNote = wire.WithDiagnosis(t.healthNote, value.String())
		case "owner":
			t.owner = value.String()
		case "status", "object":
			return false
		}
		return true
	})
	switch {
	case o.origin != key.Placed:
	case o.source == nil:
		t.Status = objectstate.Left(report, false)
	default:
		p := placement.Place{Location: o.location}
		if membership, ok := o.source.In.(placed); ok {
			p, _ = membership.Place(o.location)
		}
		t.Status = objectstate.Assigned(r.renderer.Digest, o.source, p, report, false)
		if t.Health != "" { // KindRules may make it worse
			t.health, t.healthNote = string(t.Health), t.HealthNote
		}
	}
	o.account = t
	return t
}

// stale reports whether the reports of a location are stale now. A change causes no events.
func (r *reportComposer) stale(l key.Location) bool {
	row, _ := r.table.Get(l.Key())
	return objectstate.IsRowStale(row)
}

// labelsOf returns the labels that the view adds to a row's object.
func (r *reportComposer) labelsOf(row *table.Row) []field {
	o, t := row.In.(*reported), r.accountOf(row)
	all := []field{
		{v1alpha1.LocationLabel, string(o.location)}, {v1alpha1.SpaceLabel, string(o.object.Space)}, {v1alpha1.StateLabel, string(t.State)},
	}
	if t.health != "" {
		all = append(all, field{v1alpha1.HealthLabel, t.health})
	}
	return all
}

// annotationsOf returns the annotations that the view adds to a row's object.
func (r *reportComposer) annotationsOf(row *table.Row, stale bool) []field {
	o, t := row.In.(*reported), r.accountOf(row)
	all := []field{
		{v1alpha1.SpaceAnnotation, string(o.object.Space)}, {v1alpha1.LocationLabel, string(o.location)},
		{v1alpha1.SourceNameAnnotation, o.object.Name}, {v1alpha1.OriginAnnotation, string(o.origin)},
	}
	for _, f := range []field{
		{v1alpha1.SourceNamespaceAnnotation, o.object.Namespace}, {v1alpha1.ReasonAnnotation, t.Reason}, {v1alpha1.MessageAnnotation, t.Message},
		{v1alpha1.SinceAnnotation, t.Since}, {v1alpha1.HealthNoteAnnotation, t.healthNote}, {v1alpha1.OwnerAnnotation, t.owner},
		{v1alpha1.GenerationAnnotation, t.generation},
	} {
		if f.value != "" {
			all = append(all, f)
		}
	}
	if stale {
		all = append(all, field{v1alpha1.StaleAnnotation, "true"})
	}
	return all
}

// inVersion reports whether the reader's version serves a row's object. Objects that a cluster
// created are served only in the reported version. Placed objects are served in the stored
// version, or in every version if a CRD defines their kind: then only apiVersion changes.
func (r *reportComposer) inVersion(row *table.Row) bool {
	if row.In.(*reported).origin == key.Placed {
		return r.kind.Custom != nil || r.kind.StoredAsServed()
	}
	return gjson.GetBytes(row.Value, "object.apiVersion").String() == r.kind.GVK.GroupVersion().String()
}

// template returns the object from which a row's object is composed; empty if there is none.
func (o *reported) template(row *table.Row) []byte {
	switch {
	case o.origin != key.Placed:
		return []byte(gjson.GetBytes(row.Value, "object").Raw)
	case o.source == nil:
		return nil
	}
	return o.source.Value
}

// show returns a row's object as JSON, without its resourceVersion. A placed object has the content
// of its source, with the status at the location instead of the source's. Metadata that matters
// only to the space or only to the cluster is removed.
func (r *reportComposer) show(row *table.Row, stale bool) []byte {
	o, t := row.In.(*reported), r.accountOf(row)
	template := gjson.ParseBytes(o.template(row))
	b := fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":`, r.nameOf(template), r.kind.GVK.GroupVersion())
	b = r.showMeta(b, row, template.Get("metadata"), stale)
	template.ForEach(func(name, value gjson.Result) bool {
		switch name.String() {
		case "kind", "apiVersion", "metadata":
			return true
		case "status":
			if o.origin == key.Placed {
				return true
			}
		}
		b = append(append(append(append(b, ','), name.Raw...), ':'), value.Raw...)
		return true
	})
	if o.source != nil && t.uid == o.source.Meta.UID {
		status := gjson.GetBytes(row.Report(), "status").Raw
		// An older hub may have kept one that clients could not read.
		if status != "" && !jsonscan.Deeper([]byte(status), wire.MaxStatusDepth) {
			b = append(append(b, `,"status":`...), status...)
		}
	}
	return append(b, '}')
}

// nameOf returns the kind of an object. If no CRD defines the kind, each object keeps its own: one
// location must not decide the kind of another's objects.
func (r *reportComposer) nameOf(template gjson.Result) string {
	if r.kind.Unknown {
		if own := template.Get("kind").String(); kinds.CheckKind(own) == nil {
			return own
		}
	}
	return r.kind.GVK.Kind
}

// Fields of metadata that are shown of placed objects, and of objects that a cluster created.
var (
	keptOfPlaced  = []string{"uid", "creationTimestamp"}
	keptOfCluster = []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName", "generation", "ownerReferences", "finalizers"}
)

// showMeta appends the metadata of a row's object.
func (r *reportComposer) showMeta(b []byte, row *table.Row, template gjson.Result, stale bool) []byte {
	o := row.In.(*reported)
	namespace, name := r.wide.ObjectName(o.location, o.object)
	fields := []field{{"name", name}}
	if namespace != "" {
		fields = append(fields, field{"namespace", namespace})
	}
	kept := keptOfPlaced
	switch {
	case o.origin != key.Placed:
		if kept = keptOfCluster; !isMetadata(template) {
			template = gjson.Result{}
		}
	case o.source == nil:
		fields = append(fields, field{"uid", r.accountOf(row).uid})
	}
	b = encoded(append(b, '{'), fields)
	template.ForEach(func(name, value gjson.Result) bool {
		if slices.Contains(kept, name.String()) {
			b = append(append(append(append(b, ','), name.Raw...), ':'), value.Raw...)
		}
		return true
	})
	b = showMap(append(b, `,"labels":`...), template.Get("labels"), r.labelsOf(row))
	b = showMap(append(b, `,"annotations":`...), template.Get("annotations"), r.annotationsOf(row, stale))
	return append(b, '}')
}

// isMetadata reports whether clients can parse a value as metadata. Clusters may report anything.
func isMetadata(value gjson.Result) bool {
	return value.IsObject() && json.Unmarshal([]byte(value.Raw), &metav1.ObjectMeta{}) == nil
}

// lastApplied is the annotation in which kubectl stores the applied object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// showMap appends a map of strings with added fields, which replace existing ones of the same name.
func showMap(b []byte, original gjson.Result, add []field) []byte {
	b = encoded(append(b, '{'), add)
	if original.IsObject() {
		original.ForEach(func(name, value gjson.Result) bool {
			taken := name.String() == lastApplied || slices.ContainsFunc(add, func(f field) bool { return f.name == name.String() })
			if !taken && value.Type == gjson.String {
				b = append(append(append(append(b, ','), name.Raw...), ':'), value.Raw...)
			}
			return true
		})
	}
	return append(b, '}')
}

// reportedLabels are an object's labels and those that the view adds.
type reportedLabels struct {
	labels.Labels
	added []field
}

var _ labels.Labels = reportedLabels{}

// Lookup returns the value of a label and whether it exists.
func (l reportedLabels) Lookup(label string) (string, bool) {
	for _, f := range l.added {
		if f.name == label {
			return f.value, true
		}
	}
	return l.Labels.Lookup(label)
}

// Has reports whether a label exists.
func (l reportedLabels) Has(label string) bool { _, ok := l.Lookup(label); return ok }

// Get returns the value of a label, or "".
func (l reportedLabels) Get(label string) string { v, _ := l.Lookup(label); return v }

// selects reports whether the selection matches a row's object in the view.
func (r *reportComposer) selects(s selection, row *table.Row) bool {
	o := row.In.(*reported)
	if s.labels != nil {
		var own labels.Labels = table.Labels(nil)
		switch {
		case o.source != nil:
			own = o.source.Meta.Labels
		case o.origin != key.Placed:
			set := labels.Set{}
			gjson.GetBytes(row.Value, "object.metadata.labels").ForEach(func(name, value gjson.Result) bool {
				if value.Type == gjson.String {
					set[name.String()] = value.Str
				}
				return true
			})
			own = set
		}
		if !s.labels.Matches(reportedLabels{own, r.labelsOf(row)}) {
			return false
		}
	}
	if s.fields == nil {
		return true
	}
	namespace, name := r.wide.ObjectName(o.location, o.object)
	return s.fields.Matches(&fieldsOf{kind: r.kind, namespace: namespace, name: name, value: func() []byte { return r.show(row, false) }})
}

// looksSame reports whether clients can't distinguish the two objects of a change.
func (r *reportComposer) looksSame(c table.Change) bool {
	return bytes.Equal(r.show(c.Prev, false), r.show(c.Cur, false))
}

// bare returns the object with its metadata and nothing else.
func (r *reportComposer) bare(shown []byte) []byte {
	b := fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":`, r.nameOf(gjson.ParseBytes(shown)), r.kind.GVK.GroupVersion())
	return append(append(b, gjson.GetBytes(shown, "metadata").Raw...), '}')
}
