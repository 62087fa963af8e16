package write

import (
	"cmp"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// leavingResources are the resources of a space, in the order in which their objects are
// deleted together: locations are told in this order. It skips from resource to resource,
// so its cost is in proportion to the number of resources.
func leavingResources(state *table.Snapshot, space key.Space) []key.Resource {
	var all []key.Resource
	prefix := key.SpacePrefix(space)
	for at := prefix; ; {
		var next key.Object
		state.AscendFrom(at, func(row *table.Row) bool {
			if strings.HasPrefix(row.Key, prefix) {
				next, _ = key.ParseObject(row.Key)
			}
			return false
		})
		if next.Space != space {
			break
		}
		all = append(all, next.Resource)
		// The first key after all those of the resource.
		at = clientv3.GetPrefixRangeEnd(key.ResourcePrefix(space, next.Resource))
	}
	slices.SortStableFunc(all, func(a, b key.Resource) int { return cmp.Compare(b.Rank(), a.Rank()) })
	return all
}

// firstToLeave is the prefix of the objects of a space that are deleted next: first,
// resource by resource, those that need others at a location while they end, then the rest
// in any order. Orrery's own kinds are part of the rest: without its Placements all objects
// of a space would leave their locations at once.
func firstToLeave(state *table.Snapshot, space key.Space) string {
	for _, r := range leavingResources(state, space) {
		if r.Rank() >= key.RankWorkloads && r.Group != v1alpha1.GroupVersion.Group {
			return key.ResourcePrefix(space, r)
		}
	}
	return key.SpacePrefix(space)
}

// rankOf is the rank of a row's object.
func rankOf(row *table.Row) key.Rank {
	o, err := key.ParseObject(row.Key)
	if err != nil { // does not happen: the row was found by an object's key
		return key.RankConfig
	}
	return o.Resource.Rank()
}
