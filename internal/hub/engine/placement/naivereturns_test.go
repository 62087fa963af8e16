package placement

import (
	"maps"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// naiveSilent is the return policy of objects that follow others.
const naiveSilent = "follows"

// naiveReturns returns the return policy of an object, the locations whose status returns, and the
// Placements that request it.
func (w world) naiveReturns(o key.Object, sources []naiveSource) (way v1alpha1.ReturnStatus, from []key.Location, placements []string) {
	isRequested := func(words []naiveWords, policy v1alpha1.ReturnStatus) bool {
		return slices.ContainsFunc(words, func(w naiveWords) bool {
			return w.returnStatus == policy || policy == "" && w.returnStatus == "Sometimes"
		})
	}
	// loudest is the greatest of several policies.
	loudest := func(words []naiveWords) v1alpha1.ReturnStatus {
		for _, policy := range []v1alpha1.ReturnStatus{"Rollup", "Singleton", "None", ""} {
			if isRequested(words, policy) {
				return policy
			}
		}
		return naiveSilent
	}
	var all []naiveWords
	for _, s := range sources {
		all = append(all, s.words...)
	}
	// requests are the policies of sources that take part, by the greatest policy.
	requests := map[v1alpha1.ReturnStatus][]v1alpha1.ReturnStatus{
		"Rollup": {"Rollup", "Singleton", ""}, "Singleton": {"Singleton"}, "": {""},
	}[loudest(all)]
	switch way = loudest(all); {
	case way == "None" || way == naiveSilent || way == "" && (w[o.Key()].writesStatus() || o.Resource == naiveWidgets && w.naiveBound(o.Space) != nil):
		return "None", nil, nil
	case o.Resource.Resource == "deployments" || o.Resource.Resource == "widgets":
		if way == "" {
			way = "Rollup"
		}
	case o.Resource.Resource == "resourcequotas":
		if way == "" {
			way = "Singleton"
		}
	default: // kinds without a status, and those whose status is about the space
		return "None", nil, nil
	}
	locations, names := map[key.Location]bool{}, map[string]bool{}
	for _, s := range sources {
		if slices.Contains(requests, loudest(s.words)) {
			names[s.placement] = true
			for _, l := range s.locations {
				if admitted, _ := w.naiveAdmitted(o, l); admitted && !slices.Contains(w.naiveYields(o), l) {
					locations[l] = true
				}
			}
		}
	}
	delete(names, "")
	return way, slices.Sorted(maps.Keys(locations)), slices.Sorted(maps.Keys(names))
}

// writesStatus reports whether a client in the space writes the status of a thing.
func (x *thing) writesStatus() bool {
	return slices.ContainsFunc(x.managers, func(m manager) bool { return m.name != "orrery-status" && m.field == "f:status" })
}

// manager is a field manager and a field that it owns.
type manager struct{ name, field string }

// managedFields are these as the API has them.
func (x *thing) managedFields() (all []any) {
	for _, m := range x.managers {
		all = append(all, map[string]any{"manager": m.name, "operation": "Update", "fieldsV1": map[string]any{m.field: map[string]any{"f:x": map[string]any{}}}})
	}
	return all
}
