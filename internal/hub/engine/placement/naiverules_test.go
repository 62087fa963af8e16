package placement

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// naiveCustomizers are those in force for an object at a location, by name.
func (w world) naiveCustomizers(o key.Object, location key.Location) (specs []v1alpha1.CustomizerSpec) {
	for _, name := range worldCustomizers {
		c := w[customizerAt(o.Space, name).Key()]
		if c == nil || c.deleting {
			continue
		}
		spec, ok := c.spec.(v1alpha1.CustomizerSpec)
		if !ok || spec.Locations != nil && !slices.Contains(w.naiveSelected(spec.Locations), location) {
			continue
		}
		if slices.ContainsFunc(spec.Match, func(test v1alpha1.ObjectTest) bool { return w.naiveMatches(test, o, w[o.Key()]) }) {
			specs = append(specs, spec)
		}
	}
	slices.SortStableFunc(specs, func(a, b v1alpha1.CustomizerSpec) int { return int(a.Priority - b.Priority) })
	return specs
}

// naiveReleased are the paths that any Customizer releases of an object at a location.
func (w world) naiveReleased(o key.Object, location key.Location) string {
	released := map[string]bool{}
	for _, spec := range w.naiveCustomizers(o, location) {
		for _, r := range spec.Rules {
			if r.Release && slices.Contains(worldPaths, r.Path) {
				released[r.Path] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(released)), "\n")
}

// naiveClass is what the rendering of an object at a location depends on, by worldRules.
func (w world) naiveClass(o key.Object, location key.Location) *Class {
	inputs := w.naiveTemplates(o, location)
	for _, spec := range w.naiveCustomizers(o, location) {
		var in Input
		ofLocation, ofData := "", ""
		for _, r := range spec.Rules {
			if r.Release {
				continue
			}
			if in.Rules += r.Path + ";"; r.Path == worldOfSpace {
				if s := w[spaceAt(o.Space).Key()]; s != nil {
					in.Rules += s.labels["k"]
				}
				in.Rules += ";"
			}
			if r.Path == worldOfData {
				var texts []string
				for _, d := range spec.Data {
					texts = append(texts, w.naiveData(o.Space, d))
				}
				in.Rules += strings.Join(texts, "+") + ";"
				if len(texts) > 1 {
					ofData = w[locationAt(location).Key()].labels["k"] + texts[1]
				}
			}
			if r.Path == worldNeeds {
				ofLocation = w[locationAt(location).Key()].labels["k"]
				if spec, ok := w[locationAt(location).Key()].spec.(v1alpha1.LocationSpec); ok && spec.Properties != nil {
					ofLocation += string(mustJSON(spec.Properties))
				}
			}
			if in.Needs = ofLocation; !slices.ContainsFunc(spec.Rules, func(r v1alpha1.Rule) bool { return !r.Release && r.Path == worldNeeds }) {
				in.Needs = ofData
			}
		}
		if in.Rules != "" {
			inputs = append(inputs, in)
		}
	}
	definition := w.naiveDefinition(o, location)
	shared := slices.ContainsFunc(w.naiveConsumers(o), func(b naiveBrought) bool { return slices.Contains(b.locations, location) })
	if inputs == nil && definition == nil && !shared {
		return nil
	}
	return &Class{inputs, definition, shared}
}

// naiveDefinition is what a location has of another space in place of an object's definition,
// if that says otherwise.
func (w world) naiveDefinition(o key.Object, location key.Location) *Definition {
	crd := o
	if o.Resource == naiveWidgets {
		crd = objectAt(w.naiveHome(o.Space), "apiextensions.k8s.io", "customresourcedefinitions", "", "widgets.example.com")
	}
	if crd.Resource != key.CRDs || !slices.Contains(w.naiveLocationsOf(crd), location) {
		return nil
	}
	there, here := w[key.Object{Space: w.naiveWinner(crd.Identity, location), Identity: crd.Identity}.Key()], w[crd.Key()]
	if there.spec == here.spec {
		return nil
	}
	hash := sha256.Sum256(mustJSON(there.spec))
	return &Definition{Spec: string(mustJSON(there.spec)), Hash: string(hash[:])}
}

// naiveTemplates is what an object's own templates make of its class, by worldRules.
func (w world) naiveTemplates(o key.Object, location key.Location) []Input {
	x := w[o.Key()]
	if x.annotations[v1alpha1.ExpandAnnotation] != "true" {
		return nil
	}
	switch x.data["a"] {
	case "1":
		return []Input{{Rules: "own", Needs: w[locationAt(location).Key()].labels["k"]}}
	case "2":
		k := ""
		if s := w[spaceAt(o.Space).Key()]; s != nil {
			k = s.labels["k"]
		}
		return []Input{{Rules: "own of " + k}}
	}
	return nil
}

// naiveData is the data of a ConfigMap, as a test's rules see it.
func (w world) naiveData(s key.Space, d v1alpha1.CustomizerData) string {
	x := w[objectAt(s, "", "configmaps", d.ConfigMap.Namespace, d.ConfigMap.Name).Key()]
	switch {
	case x == nil:
		return ""
	case x.data == nil:
		return "{}"
	}
	return string(mustJSON(x.data))
}
