package placement

import (
	"maps"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// naiveSilent is what a Placement says of the status of what follows.
const naiveSilent = "follows"

// naiveReturns is how the status of an object comes back, from which locations, and which
// Placements have it so.
func (w world) naiveReturns(o key.Object, sources []naiveSource) (way v1alpha1.ReturnStatus, from []key.Location, by []string) {
	said := func(words []naiveWords, policy v1alpha1.ReturnStatus) bool {
		return slices.ContainsFunc(words, func(w naiveWords) bool {
			return w.returnStatus == policy || policy == "" && w.returnStatus == "Sometimes"
		})
	}
	// loudest is the one of what several say that counts.
	loudest := func(words []naiveWords) v1alpha1.ReturnStatus {
		for _, policy := range []v1alpha1.ReturnStatus{"Rollup", "Singleton", "None", ""} {
			if said(words, policy) {
				return policy
			}
		}
		return naiveSilent
	}
	var all []naiveWords
	for _, s := range sources {
		all = append(all, s.words...)
	}
	// Which of the sources have it come back, by what all say.
	asks := map[v1alpha1.ReturnStatus][]v1alpha1.ReturnStatus{
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
		if slices.Contains(asks, loudest(s.words)) {
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

// writesStatus says whether somebody in the space writes the status of a thing.
func (x *thing) writesStatus() bool {
	return slices.ContainsFunc(x.managers, func(m manager) bool { return m.name != "orrery-status" && m.field == "f:status" })
}

// manager is who owns a field of a thing.
type manager struct{ name, field string }

// managedFields are these as the API has them.
func (x *thing) managedFields() (all []any) {
	for _, m := range x.managers {
		all = append(all, map[string]any{"manager": m.name, "operation": "Update", "fieldsV1": map[string]any{m.field: map[string]any{"f:x": map[string]any{}}}})
	}
	return all
}
