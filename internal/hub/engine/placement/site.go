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

// Site is a location as rules see it.
type Site struct {
	Name   key.Location
	Labels table.Labels
	// Properties are its spec.properties, a JSON object; empty if it has none.
	Properties string
}

// site is a location that exists, as policies see it.
type site struct {
	Site
	uid    string
	taints []taint
}

// taint is a taint, and the revision in which it came.
type taint struct {
	v1alpha1.Taint
	since int64
}

// siteOf reads the row of a location; nil if it is gone or being deleted. What can't be
// read of it is as if it were not there: nothing that is at the location depends on it.
func siteOf(row *table.Row) *site {
	at := &site{}
	if !at.outline(row) {
		return nil
	}
	at.read(row)
	return at
}

// outline makes it the site of a row with what selectors ask of it, which costs nothing; false if
// the location is gone or being deleted.
func (at *site) outline(row *table.Row) bool {
	if row == nil || row.Meta.Deleting {
		return false
	}
	name, ok := key.LocationOf(row.Key)
	*at = site{Site: Site{Name: name, Labels: row.Meta.Labels}, uid: row.Meta.UID}
	return ok
}

// read reads what else the row of a site says: it has kilobytes of what its cluster serves.
func (at *site) read(row *table.Row) {
	fields := gjson.GetManyBytes(row.Value, "spec.properties", "spec.taints", "status.taints")
	if fields[0].IsObject() {
		at.Properties = strings.Clone(fields[0].Raw)
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
		at.taints = append(at.taints, taint{t, sinceOf(t, came)})
	}
}

// sinceOf is the revision in which a taint came; the last there can be if that is not
// known, so that nothing leaves for it.
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

// evicting is the first taint that evicts.
func (at *site) evicting() (first taint) {
	if i := slices.IndexFunc(at.taints, func(t taint) bool { return t.Effect == v1alpha1.TaintEvict }); i >= 0 {
		first = at.taints[i]
	}
	return first
}

// same says whether policies see two sites alike; nil is one that is not there.
func (at *site) same(as *site) bool {
	if at == nil || as == nil {
		return at == as
	}
	return at.uid == as.uid && at.Properties == as.Properties && slices.Equal(at.Labels, as.Labels) && slices.Equal(at.taints, as.taints)
}

// open says whether a location is there and has no taint that evicts: objects may be
// assigned to it directly.
func (at *site) open() bool {
	return at != nil && at.evicting() == (taint{})
}
