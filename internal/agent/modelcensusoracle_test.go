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

// compare returns an error if the reports at the hub are not as expected.
func (w *upsyncWorld) compare() error {
	have := map[string]wire.Report{}
	reported := w.Reported()
	for _, k := range reported {
		if strings.HasPrefix(k, "~") {
			have[k], _ = w.Report(k)
		}
	}
	if status := w.AgentStatus(); status.Upsync == nil && w.limit() < 1000 && len(w.wants(true)) > w.limit() {
		return errors.New("the agent does not say that some are left out")
	}
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	for path, uid := range w.yields {
		o, err := key.ParsePath(path)
		if err != nil {
			return err
		}
		if object := w.cluster.objects[w.placing.TargetIdentity(o).String()]; object == nil || object.uid != uid || w.placed(object) {
			return fmt.Errorf("%s is left to the location, where it is %+v, and was %s", path, object, uid)
		}
		if slices.Contains(reported, path) {
			return fmt.Errorf("%s is left to the location, and still reported", path)
		}
	}
	upsynced := w.upsynced()
	n := 0
	for k, r := range have {
		if strings.HasPrefix(k, "~born:") {
			if _, ok := upsynced[k]; !ok {
				return fmt.Errorf("%s is reported, and is not to be", k)
			}
			n++
		}
		_ = r
	}
	if want := min(len(upsynced), w.limit()); n != want {
		return fmt.Errorf("%d of %d are reported, want %d: %q", n, len(upsynced), want, slices.Sorted(maps.Keys(have)))
	}
	owned, may := w.owned()
	for k := range have {
		if _, ok := owned[k]; ok || !strings.HasPrefix(k, "~owned:") {
			continue
		}
		if may[k] == nil {
			return fmt.Errorf("%s is reported, and is not to be", k)
		}
		upsynced[k] = may[k]
	}
	for k, want := range owned {
		if r, ok := have[k]; !ok || r.Owner != want.owner {
			return fmt.Errorf("%s is reported as %+v, want that of %s", k, r, want.owner)
		}
		upsynced[k] = want.thing
	}
	for k, r := range have {
		o := upsynced[k]
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

func (w *upsyncWorld) limit() int {
	n := 0
	w.Set(func(s *wire.Settings) { n = s.UpsyncObjects })
	if n == 0 {
		return 1000
	}
	return n
}

func (w *upsyncWorld) wants(bool) map[string]*thing {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	return w.upsynced()
}

// upsynced returns the upsynced objects that should be reported, by line.
func (w *upsyncWorld) upsynced() map[string]*thing {
	var requested []wire.Upsync
	w.Set(func(s *wire.Settings) { requested = s.Upsync })
	all := map[string]*thing{}
	isAmong := func(allowed []string, one string) bool { return allowed == nil || slices.Contains(allowed, one) }
	for _, o := range w.cluster.objects {
		if w.placed(o) || implied(o) || !w.cluster.serves(o.id.Resource) {
			continue
		}
		for _, u := range requested {
			source := o.id
			if w.placing == key.Prefixed {
				rest, ok := strings.CutPrefix(source.Namespace, u.Space+"--")
				if source.Resource == key.Namespaces {
					source.Name, ok = strings.CutPrefix(source.Name, u.Space+"--")
					rest = ""
				}
				if !ok || strings.HasPrefix(rest, "-") {
					continue
				}
				source.Namespace = rest
			}
			if (u.Group == "*" || u.Group == source.Group) && slices.Contains(u.Resources, source.Resource.Resource) && isAmong(u.Names, source.Name) && isAmong(u.Namespaces, source.Namespace) {
				all[key.Report{Origin: key.Upsynced, Object: key.Object{Space: key.Space(u.Space), Identity: source}}.Line()] = o
			}
		}
	}
	return all
}

// placed reports whether an object has ownership metadata that proves that an agent placed it.
func (w *upsyncWorld) placed(o *thing) bool {
	return o.meta("labels", v1alpha1.LocationLabel) != "" && o.meta("annotations", v1alpha1.SourceUIDAnnotation) != "" && !o.controlled
}

type ownedThing struct {
	*thing
	owner string
}

// owned returns the associated objects that must be reported, and those that may be reported
// since their owner no longer exists.
func (w *upsyncWorld) owned() (all map[string]ownedThing, may map[string]*thing) {
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
		r := w.cluster.objects[w.placing.TargetIdentity(source).String()]
		if r == nil || !w.placed(r) || policy.Associated == "" {
			continue
		}
		for _, o := range byUID {
			if w.placed(o) || !slices.Contains(strings.Split(policy.Associated, "\n"), o.id.Resource.String()) {
				continue
			}
			associated := key.Object{Space: "s", Identity: o.id}
			associated.Namespace = source.Namespace
			line := key.Report{Origin: key.Owned, Object: associated}.Line()
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

// naively returns the expected report of an object, with a namespace and a name.
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
