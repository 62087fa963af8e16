package upsync

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Wanted says whether a report is wanted in a state. owner is the identity of the placed object
// that an Owned one says to belong to.
func Wanted(state table.Reader, r key.Report, owner string) bool {
	location := state.Get(r.Location.Key())
	if location == nil || location.Meta.Deleting {
		return false
	}
	switch r.Origin {
	case key.Born:
		return placement.UpsyncsOf(location).For(r.Object, placement.PlacingOf(location))
	case key.Owned:
		id, err := key.ParseIdentity(owner)
		return err == nil && Associates(state.Get(key.Object{Space: r.Space, Identity: id}.Key()), r.Location, r.Resource)
	}
	return false
}

// Associates says whether objects of a kind come back that a row's object owns at a location,
// to which it is assigned.
func Associates(row *table.Row, l key.Location, of key.Resource) bool {
	if row == nil {
		return false
	}
	m, ok := row.In.(*placement.Membership)
	if !ok {
		return false
	}
	place, ok := m.Place(l)
	return ok && place.Owner == "" && !place.Leaves && slices.Contains(strings.Split(place.Policy.Associated, "\n"), of.String())
}

// OwnerOf is the owner that a report says, as it is in the log.
func OwnerOf(report []byte) string { return gjson.GetBytes(report, "owner").Str }

// Unwanted are the keys of up to most reports of what was not placed at a location that are
// not wanted; more says that there are others.
func Unwanted(state table.Reader, u *Usage, l key.Location, most int) (rows []*table.Row, more bool) {
	for _, prefix := range u.Prefixes(l) {
		state.Ascend(prefix, func(row *table.Row) bool {
			r, err := key.ParseReport(row.Key)
			if err == nil && Wanted(state, r, OwnerOf(row.Value)) {
				return true
			}
			if len(rows) == most {
				more = true
				return false
			}
			rows = append(rows, row)
			return true
		})
		if more {
			break
		}
	}
	return rows, more
}

// Limits bound what a location reports of what was not placed there: of each origin.
func Limits(spec *v1alpha1.LocationSpec) Used {
	most := Used{defaultObjects, defaultBytes}
	if n := spec.Limits.UpsyncObjects; n != nil {
		most.Objects = *n
	}
	if n := spec.Limits.UpsyncBytes; n != nil {
		most.Bytes = n.Value()
	}
	return most
}

// The defaults of a location's limits.
const (
	defaultObjects = 20_000
	defaultBytes   = 64 << 20
)
