package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// compare says what is wrong with what the hub has.
func (w *censusWorld) compare() error {
	have := map[string]wire.Report{}
	reported := w.Reported()
	for _, k := range reported {
		if strings.HasPrefix(k, "~") {
			have[k], _ = w.Report(k)
		}
	}
	if status := w.AgentStatus(); status.Sees == nil && w.limit() < 1000 && len(w.wants(true)) > w.limit() {
		return errors.New("the agent does not say that some are left out")
	}
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	for path, uid := range w.yields {
		o, err := key.ParsePath(path)
		if err != nil {
			return err
		}
		if at := w.cluster.objects[w.placing.At(o).String()]; at == nil || at.uid != uid || w.placed(at) {
			return fmt.Errorf("%s is left to the location, where it is %+v, and was %s", path, at, uid)
		}
		if slices.Contains(reported, path) {
			return fmt.Errorf("%s is left to the location, and still reported", path)
		}
	}
	born := w.born()
	n := 0
	for k, r := range have {
		if strings.HasPrefix(k, "~born:") {
			if _, ok := born[k]; !ok {
				return fmt.Errorf("%s is reported, and is not to be", k)
			}
			n++
		}
		_ = r
	}
	if want := min(len(born), w.limit()); n != want {
		return fmt.Errorf("%d of %d are reported, want %d: %q", n, len(born), want, slices.Sorted(maps.Keys(have)))
	}
	owned, may := w.owned()
	for k := range have {
		if _, ok := owned[k]; ok || !strings.HasPrefix(k, "~owned:") {
			continue
		}
		if may[k] == nil {
			return fmt.Errorf("%s is reported, and is not to be", k)
		}
		born[k] = may[k]
	}
	for k, want := range owned {
		if r, ok := have[k]; !ok || r.Owner != want.owner {
			return fmt.Errorf("%s is reported as %+v, want that of %s", k, r, want.owner)
		}
		born[k] = want.thing
	}
	for k, r := range have {
		o := born[k]
		line, err := key.ParseLine("", k)
		if err != nil {
			return err
		}
		if want := naively(o, line.Namespace, line.Name); r.UID != o.uid || r.State != wire.Present || !bytes.Equal(canonicalOf(r.Object), want) {
			return fmt.Errorf("%s is reported as %+v %s, want %s", k, r, r.Object, want)
		}
	}
	return nil
}

func (w *censusWorld) limit() int {
	n := 0
	w.Set(func(s *wire.Settings) { n = s.UpsyncObjects })
	if n == 0 {
		return 1000
	}
	return n
}

func (w *censusWorld) wants(bool) map[string]*thing {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	return w.born()
}

// born is what is to be reported of what was born, by line.
func (w *censusWorld) born() map[string]*thing {
	var asked []wire.Upsync
	w.Set(func(s *wire.Settings) { asked = s.Upsync })
	all := map[string]*thing{}
	among := func(of []string, one string) bool { return of == nil || slices.Contains(of, one) }
	for _, o := range w.cluster.objects {
		if w.placed(o) || implied(o) || !w.cluster.serves(o.id.Resource) {
			continue
		}
		for _, u := range asked {
			at := o.id
			if w.placing == key.Prefixed {
				rest, ok := strings.CutPrefix(at.Namespace, u.Space+"--")
				if at.Resource == key.Namespaces {
					at.Name, ok = strings.CutPrefix(at.Name, u.Space+"--")
					rest = ""
				}
				if !ok || strings.HasPrefix(rest, "-") {
					continue
				}
				at.Namespace = rest
			}
			if (u.Group == "*" || u.Group == at.Group) && slices.Contains(u.Resources, at.Resource.Resource) && among(u.Names, at.Name) && among(u.Namespaces, at.Namespace) {
				all[key.Report{Origin: key.Born, Object: key.Object{Space: key.Space(u.Space), Identity: at}}.Line()] = o
			}
		}
	}
	return all
}

// placed says that an object carries marks that prove that some agent placed it.
func (w *censusWorld) placed(o *thing) bool {
	return o.meta("labels", v1alpha1.LocationLabel) != "" && o.meta("annotations", v1alpha1.SourceUIDAnnotation) != "" && !o.controlled
}

type ownedThing struct {
	*thing
	owner string
}

// owned is what is to be reported of what belongs to what was placed. What may be is of an
// owner that is no more.
func (w *censusWorld) owned() (all map[string]ownedThing, may map[string]*thing) {
	all, may = map[string]ownedThing{}, map[string]*thing{}
	byUID := map[string]*thing{}
	for _, o := range w.cluster.objects {
		if w.cluster.serves(o.id.Resource) {
			byUID[o.uid] = o
		}
	}
	for path, policy := range w.putting {
		source, err := key.ParsePath(path)
		if err != nil {
			panic(err)
		}
		r := w.cluster.objects[w.placing.At(source).String()]
		if r == nil || !w.placed(r) || policy.Associated == "" {
			continue
		}
		for _, o := range byUID {
			if w.placed(o) || !slices.Contains(strings.Split(policy.Associated, "\n"), o.id.Resource.String()) {
				continue
			}
			at := key.Object{Space: "s", Identity: o.id}
			at.Namespace = source.Namespace
			line := key.Report{Origin: key.Owned, Object: at}.Line()
			p := o
			for n := 0; p != nil && p.controlled && n < 8; n++ {
				if p.controller.UID == r.uid {
					all[line] = ownedThing{o, source.Identity.String()}
					break
				}
				if p = byUID[p.controller.UID]; p == nil && o.id.Namespace == r.id.Namespace {
					may[line] = o
				}
			}
		}
	}
	return all, may
}

// naively is an object as it is to be reported, in a namespace and under a name.
func naively(o *thing, namespace, name string) []byte {
	var all map[string]any
	if err := json.Unmarshal(o.body(true), &all); err != nil {
		panic(err)
	}
	all["apiVersion"] = "v1"
	if g := o.id.APIGroup(); g != "" {
		all["apiVersion"] = g + "/v1"
	}
	meta := all["metadata"].(map[string]any)
	delete(meta, "managedFields")
	delete(meta, "resourceVersion")
	if meta["name"] = name; o.id.Namespace != "" {
		meta["namespace"] = namespace
	}
	if a, _ := meta["annotations"].(map[string]any); len(a) == 0 {
		delete(meta, "annotations")
	}
	return canonical(all)
}

func canonicalOf(object json.RawMessage) []byte {
	var all map[string]any
	if err := json.Unmarshal(object, &all); err != nil {
		return nil
	}
	if a, _ := all["metadata"].(map[string]any)["annotations"].(map[string]any); len(a) == 0 {
		delete(all["metadata"].(map[string]any), "annotations")
	}
	return canonical(all)
}
