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

// leavingResources returns the resources of a space, in the order in which their objects are deleted;
// agents get the deletions in this order. Its cost is in proportion to the number of resources.
func leavingResources(state *table.Snapshot, space key.Space) []key.Resource {
	var all []key.Resource
	prefix := key.SpacePrefix(space)
	for from := prefix; ; {
		var next key.Object
		state.AscendFrom(from, func(row *table.Row) bool {
			if strings.HasPrefix(row.Key, prefix) {
				next, _ = key.ParseObject(row.Key)
			}
			return false
		})
		if next.Space != space {
			break
		}
		all = append(all, next.Resource)
		// The first key after those of the resource.
		from = clientv3.GetPrefixRangeEnd(key.ResourcePrefix(space, next.Resource))
	}
	slices.SortStableFunc(all, func(a, b key.Resource) int { return cmp.Compare(b.Rank(), a.Rank()) })
	return all
}

// firstToLeave returns the prefix of the next objects of a space to delete. Objects that need others
// at a location while they end are deleted first, resource by resource, and then all others in any
// order. Orrery's own kinds belong to the latter: without its Placements, all objects of a space
// would be removed from their locations at once.
func firstToLeave(state *table.Snapshot, space key.Space) string {
	for _, r := range leavingResources(state, space) {
		if r.Rank() >= key.RankWorkloads && r.Group != v1alpha1.GroupVersion.Group {
			return key.ResourcePrefix(space, r)
		}
	}
	return key.SpacePrefix(space)
}

// rankOf returns the rank of a row's object.
func rankOf(row *table.Row) key.Rank {
	o, err := key.ParseObject(row.Key)
	if err != nil { // can't happen: the key is that of an object
		return key.RankConfig
	}
	return o.Resource.Rank()
}
