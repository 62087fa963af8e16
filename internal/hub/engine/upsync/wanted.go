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

// Wanted reports whether a policy requests a report. owner is the identity of the placed object to
// which an Owned report belongs, as the report states it.
func Wanted(state table.Reader, r key.Report, owner string) bool {
	location := state.Get(r.Location.Key())
	if location == nil || location.Meta.Deleting {
		return false
	}
	switch r.Origin {
	case key.Upsynced:
		return placement.UpsyncsOf(location).For(r.Object, placement.PlacingOf(location))
	case key.Owned:
		id, err := key.ParseIdentity(owner)
		return err == nil && Associates(state.Get(key.Object{Space: r.Space, Identity: id}.Key()), r.Location, r.Resource)
	}
	return false
}

// Associates reports whether the policies of a row's object request associated objects of a
// resource from a location to which it is assigned.
func Associates(row *table.Row, l key.Location, resource key.Resource) bool {
	if row == nil {
		return false
	}
	m, ok := row.In.(*placement.Membership)
	if !ok {
		return false
	}
	place, ok := m.Place(l)
	return ok && place.Owner == "" && !place.Leaves && slices.Contains(strings.Split(place.Policy.Associated, "\n"), resource.String())
}

// OwnerOf returns the owner that a stored report states.
func OwnerOf(report []byte) string { return gjson.GetBytes(report, "owner").Str }

// Unwanted returns up to most reports of a location about objects that were not placed and that no
// policy requests; more reports whether there are others.
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

// Limits returns the limits of a location for reports of objects that were not placed, for each
// origin.
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
