package placement

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// naivePrefixed reports whether a location prefixes the namespaces of each space.
func (w world) naivePrefixed(l key.Location) bool {
	spec, ok := w[locationAt(l).Key()].spec.(v1alpha1.LocationSpec)
	return ok && spec.Namespaces == "Prefixed"
}

// naiveAdmitted reports whether a location admits an object, and returns the ServiceAccount that
// acts for it there.
func (w world) naiveAdmitted(o key.Object, l key.Location) (admitted bool, account string) {
	admitted, account = w.naiveListed(o, l)
	if admitted && w.naivePrefixed(l) && o.Namespace == "" && o.Identity.Resource != key.Namespaces {
		return false, ""
	}
	return admitted, account
}

// naiveListed is naiveAdmitted by the location's spec.admit.
func (w world) naiveListed(o key.Object, l key.Location) (admitted bool, account string) {
	spec := w[locationAt(l).Key()].spec
	if spec == nil {
		return true, ""
	}
	list, ok := spec.(v1alpha1.LocationSpec)
	if !ok {
		return false, ""
	}
	if list.Admit == nil {
		return true, ""
	}
	for _, e := range list.Admit {
		if naiveVoid(e) {
			return false, ""
		}
		kind := e.Kinds == nil
		for _, k := range e.Kinds {
			group := k.APIGroup == nil || *k.APIGroup == "*" || *k.APIGroup == o.APIGroup()
			resource := k.Resources == nil || slices.Contains(k.Resources, "*") || slices.Contains(k.Resources, o.Resource.Resource)
			kind = kind || group && resource
		}
		if kind && w.naiveIsAbout(e, o.Space) && (e.Namespaces == nil || slices.Contains(e.Namespaces, o.Namespace)) {
			if e.Impersonate != nil {
				return true, e.Impersonate.ServiceAccount
			}
			return true, ""
		}
	}
	return false, ""
}

func naiveVoid(e v1alpha1.Admit) bool {
	if e.Spaces == nil || e.Spaces.Selector == nil {
		return e.Spaces != nil && e.Spaces.Names == nil
	}
	_, err := metav1.LabelSelectorAsSelector(e.Spaces.Selector)
	return err != nil
}

func (w world) naiveIsAbout(e v1alpha1.Admit, s key.Space) bool {
	if e.Spaces == nil {
		return true
	}
	if e.Spaces.Names != nil && !slices.Contains(e.Spaces.Names, string(s)) || e.Spaces.Names == nil && s == key.Root {
		return false
	}
	var labels map[string]string
	if x := w[spaceAt(s).Key()]; x != nil {
		labels = x.labels
	}
	return e.Spaces.Selector == nil || naiveAny([]metav1.LabelSelector{*e.Spaces.Selector}, labels)
}

// naiveAdmitsSpace reports whether a location admits any object of a space.
func (w world) naiveAdmitsSpace(s key.Space, l key.Location) bool {
	x := w[locationAt(l).Key()]
	if x == nil || x.spec == nil {
		return true
	}
	list, ok := x.spec.(v1alpha1.LocationSpec)
	if ok && list.Admit == nil {
		return true
	}
	for _, e := range list.Admit {
		if naiveVoid(e) {
			return false
		}
		if w.naiveIsAbout(e, s) {
			return true
		}
	}
	return false
}

// naiveRefused are the locations that are selected but do not admit an object.
func (w world) naiveRefused(o key.Object) []key.Location {
	all := map[key.Location]bool{}
	for _, s := range w.naiveSources(o) {
		for _, l := range s.locations {
			if admitted, _ := w.naiveAdmittedBound(o, l); !admitted {
				all[l] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// naiveReasons are why a location refuses what it refuses, in the order of locations.
func (w world) naiveReasons(o key.Object) (reasons []string) {
	for _, l := range w.naiveRefused(o) {
		if listed, _ := w.naiveListed(o, l); listed {
			reasons = append(reasons, "ClusterScoped")
		} else {
			reasons = append(reasons, "NotAdmitted")
		}
	}
	return reasons
}
