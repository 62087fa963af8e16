package read

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// ReportedKind is a kind of which there are reports.
type ReportedKind struct {
	Resource key.Resource
	// Space is the one whose objects were placed; empty for what a cluster made.
	Space key.Space
	// GVK is that of objects that a cluster made; empty for what was placed.
	GVK schema.GroupVersionKind
	// Namespaced says that the objects are in namespaces.
	Namespaced bool
	// Locations is how many report objects of the kind.
	Locations int
}

// GVR is the resource of objects that a cluster made.
func (k ReportedKind) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.Resource.APIGroup(), Version: k.GVK.Version, Resource: k.Resource.Resource}
}

// ReportedKinds are the kinds of the objects in the view of reports, in a state of the table:
// each once, what was placed once in a space, and of one resource only if that is given. What
// most locations say comes first: of one kind they may say different things.
func ReportedKinds(snapshot *table.Snapshot, s key.Space, l key.Location, of *key.Resource) (all []ReportedKind) {
	lens := Reports(s, l).(reportsLens)
	w, seen := world{snap: snapshot}, map[ReportedKind]said{}
	w.pairs(key.Called{Location: lens.location, Space: lens.space}, spot{}, func(at key.Location, s key.Space) bool {
		for _, origin := range origins {
			w.kinds(at, s, origin, of, func(k ReportedKind) {
				was, again := seen[k]
				switch {
				case !again:
					was.index = len(all)
					all = append(all, k)
				case was.last == at:
					return
				}
				all[was.index].Locations++
				seen[k] = said{was.index, at}
			})
		}
		return true
	})
	slices.SortStableFunc(all, func(a, b ReportedKind) int { return cmp.Compare(b.Locations, a.Locations) })
	return all
}

// said is where a kind is among all, and the location that has said it last.
type said struct {
	index int
	last  key.Location
}

// HasReports says whether a location reports anything about a space.
func HasReports(t *table.Table, s key.Space, l key.Location) bool {
	return len(world{snap: t.Snapshot()}.some(key.SpaceReports(l, s), "", 1)) > 0
}

// kinds calls note for the kinds of one location's reports of an origin about a space.
func (w world) kinds(at key.Location, s key.Space, origin key.Origin, of *key.Resource, note func(ReportedKind)) {
	prefix := key.SpaceReports(at, s) + string(origin) + "/"
	from := prefix
	if of != nil {
		prefix = key.ReportPrefix(at, s, origin, *of)
	}
	for {
		var k *ReportedKind
		from = max(from, prefix)
		w.snap.AscendFrom(from, func(row *table.Row) bool {
			if !strings.HasPrefix(row.Key, prefix) {
				return false
			}
			from = row.Key + "\x00"
			if origin == key.Placed && objectstate.Removed(row.Report(), "") {
				return true
			}
			k = kindOf(row, origin)
			return k == nil
		})
		if k == nil {
			return
		}
		if note(*k); origin == key.Placed {
			from = key.After(key.ReportPrefix(at, s, origin, k.Resource))
		}
	}
}

func kindOf(report *table.Row, origin key.Origin) *ReportedKind {
	r, err := key.ParseReport(report.Key)
	if err != nil {
		return nil
	}
	k := &ReportedKind{Resource: r.Resource, Namespaced: r.Namespace != ""}
	if origin == key.Placed {
		k.Space = r.Space
	} else {
		said := gjson.GetManyBytes(report.Value, "object.apiVersion", "object.kind")
		if k.GVK = schema.FromAPIVersionAndKind(said[0].String(), said[1].String()); k.GVK.Group != r.APIGroup() {
			return nil
		}
	}
	return k
}
