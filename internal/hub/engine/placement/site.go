package placement

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Site holds the fields of a location that rules use.
type Site struct {
	Name   key.Location
	Labels table.Labels
	// Properties is the JSON object spec.properties; empty if there is none.
	Properties string
}

// site holds the fields of an existing location that policies use.
type site struct {
	Site
	uid    string
	taints []taint
}

// taint is a taint and the revision at which it was added.
type taint struct {
	v1alpha1.Taint
	since int64
}

// siteOf reads the row of a location; nil if it does not exist or is being deleted. Fields that
// cannot be read are treated as absent.
func siteOf(row *table.Row) *site {
	loc := &site{}
	if !loc.outline(row) {
		return nil
	}
	loc.read(row)
	return loc
}

// outline sets the fields that selectors use. It parses no JSON. It returns false if the location
// does not exist or is being deleted.
func (loc *site) outline(row *table.Row) bool {
	if row == nil || row.Meta.Deleting {
		return false
	}
	name, ok := key.LocationOf(row.Key)
	*loc = site{Site: Site{Name: name, Labels: row.Meta.Labels}, uid: row.Meta.UID}
	return ok
}

// read sets the other fields. It parses the row, which has kilobytes of API discovery data of the
// cluster.
func (loc *site) read(row *table.Row) {
	fields := gjson.GetManyBytes(row.Value, "spec.properties", "spec.taints", "status.taints")
	if fields[0].IsObject() {
		loc.Properties = strings.Clone(fields[0].Raw)
	}
	var came []v1alpha1.TaintStatus
	if fields[2].IsArray() && json.Unmarshal([]byte(fields[2].Raw), &came) != nil {
		came = nil
	}
	var taints []v1alpha1.Taint
	if fields[1].IsArray() && json.Unmarshal([]byte(fields[1].Raw), &taints) != nil {
		taints = nil
	}
	for _, t := range taints {
		loc.taints = append(loc.taints, taint{t, sinceOf(t, came)})
	}
}

// sinceOf returns the revision at which a taint was added. If that is unknown, it returns the
// highest revision, so that no object is removed because of the taint.
func sinceOf(t v1alpha1.Taint, came []v1alpha1.TaintStatus) int64 {
	i := slices.IndexFunc(came, func(c v1alpha1.TaintStatus) bool { return c.Key == t.Key && c.Effect == t.Effect })
	if i < 0 {
		return math.MaxInt64
	}
	rev, err := strconv.ParseInt(came[i].ResourceVersion, 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return rev
}

// evicting returns the first taint with effect Evict.
func (loc *site) evicting() (first taint) {
	if i := slices.IndexFunc(loc.taints, func(t taint) bool { return t.Effect == v1alpha1.TaintEvict }); i >= 0 {
		first = loc.taints[i]
	}
	return first
}

// same reports whether two sites are equal for policies; nil is a site that does not exist.
func (loc *site) same(other *site) bool {
	if loc == nil || other == nil {
		return loc == other
	}
	return loc.uid == other.uid && loc.Properties == other.Properties && slices.Equal(loc.Labels, other.Labels) && slices.Equal(loc.taints, other.taints)
}

// open reports whether a location exists and has no taint with effect Evict. Then objects may be
// assigned to it directly.
func (loc *site) open() bool {
	return loc != nil && loc.evicting() == (taint{})
}
