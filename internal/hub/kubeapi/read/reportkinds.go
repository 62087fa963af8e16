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

// ReportedKind is a kind of objects that locations report.
type ReportedKind struct {
	Resource key.Resource
	// Space is the space of placed objects; empty for objects that a cluster created.
	Space key.Space
	// GVK is the kind of objects that a cluster created; empty for placed objects.
	GVK schema.GroupVersionKind
	// Namespaced reports whether the objects are in namespaces.
	Namespaced bool
	// Locations is the number of locations that report objects of the kind.
	Locations int
}

// GVR returns the resource of objects that a cluster created.
func (k ReportedKind) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.Resource.APIGroup(), Version: k.GVK.Version, Resource: k.Resource.Resource}
}

// ReportedKinds returns the kinds of the objects in the view of reports, in a state of the table.
// Each kind is returned once, that of placed objects once for each space. If only is not nil, other
// resources are left out. Locations may disagree about a kind; the one that most locations report
// comes first.
func ReportedKinds(snapshot *table.Snapshot, s key.Space, l key.Location, only *key.Resource) (all []ReportedKind) {
	lens := Reports(s, l).(reportsLens)
	w, seen := world{snap: snapshot}, map[ReportedKind]kindCount{}
	w.pairs(key.Called{Location: lens.location, Space: lens.space}, position{}, func(location key.Location, s key.Space) bool {
		for _, origin := range origins {
			w.kinds(location, s, origin, only, func(k ReportedKind) {
				count, again := seen[k]
				switch {
				case !again:
					count.index = len(all)
					all = append(all, k)
				case count.last == location:
					return
				}
				all[count.index].Locations++
				seen[k] = kindCount{count.index, location}
			})
		}
		return true
	})
	slices.SortStableFunc(all, func(a, b ReportedKind) int { return cmp.Compare(b.Locations, a.Locations) })
	return all
}

// kindCount is the index of a kind in the result, and the last location that counts for it.
type kindCount struct {
	index int
	last  key.Location
}

// HasReports reports whether a location reports anything about a space.
func HasReports(t *table.Table, s key.Space, l key.Location) bool {
	return len(world{snap: t.Snapshot()}.some(key.SpaceReports(l, s), "", 1)) > 0
}

// kinds calls found for the kinds of one location's reports of an origin about a space.
func (w world) kinds(location key.Location, s key.Space, origin key.Origin, only *key.Resource, found func(ReportedKind)) {
	prefix := key.SpaceReports(location, s) + string(origin) + "/"
	from := prefix
	if only != nil {
		prefix = key.ReportPrefix(location, s, origin, *only)
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
		if found(*k); origin == key.Placed {
			from = key.After(key.ReportPrefix(location, s, origin, k.Resource))
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
		names := gjson.GetManyBytes(report.Value, "object.apiVersion", "object.kind")
		if k.GVK = schema.FromAPIVersionAndKind(names[0].String(), names[1].String()); k.GVK.Group != r.APIGroup() {
			return nil
		}
	}
	return k
}
