package faults

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// long is the time after which the test logs that not everything is as desired yet.
const long = 20 * time.Second

var (
	errRuns        = errors.New("it still runs")
	errTerminating = errors.New("it is still terminating")
	errMoves       = errors.New("it was still written to between two readings")
)

// converge waits until every site matches the spaces, by a comparison that does not use the hub's
// own computation of desired objects, and checks that nothing else happened. All changes of the
// round have then reached each site: the last write has, and two lists in a row show the same
// versions. Otherwise a late change would count as one without a reason in the next round.
func (l *life) converge(round int64) {
	l.t.Helper()
	l.writeLast()
	now, last := map[string]world.Listed{}, map[string]world.Listed{}
	fail := func(err error) error {
		return fmt.Errorf("round %d: %w\nwhat was done:\n%s", round, err, strings.Join(l.log, "\n"))
	}
	start, slow := time.Now(), error(nil)
	env.Eventually(l.t, soon, func() (err error) {
		defer func() {
			if err != nil && time.Since(start) > long && slow == nil {
				slow = err
				l.t.Logf("not yet after %s: %v", long, err)
			}
		}()
		for _, name := range siteNames {
			want, err := l.wanted(name)
			if err == nil {
				now[name], err = l.compare(l.Sites[name], want)
			}
			if err == nil && !sameVersions(last[name], now[name]) {
				err = errMoves
			}
			last[name] = now[name]
			if err != nil {
				return fail(fmt.Errorf("location %s: %w", name, err))
			}
		}
		return nil
	})
	err := l.kept()
	for _, name := range siteNames {
		err = errors.Join(err, l.undisturbed(name, now[name]), l.foreignUntouched(l.Sites[name]))
	}
	if err != nil {
		l.t.Fatal(fail(err))
	}
	l.before = now
	l.forgetRound()
}

// sources lists the objects that users created in a space.
func (l *life) sources(space string) (world.Listed, error) {
	all := world.Listed{}
	for _, r := range []schema.GroupVersionResource{world.Namespaces, world.ConfigMaps, world.Deployments, widgets(space), gadgets, world.CRDs} {
		if err := all.Add(l.t.Context(), l.spaces[space].Resource(r), ""); err != nil {
			return nil, fmt.Errorf("list %s in space %q: %w", r.Resource, space, err)
		}
	}
	return all, nil
}

// wants are the desired objects of a location by key and space: several spaces may desire objects
// of the same identity.
type wants map[string]world.Listed

// wanted computes the desired objects of a location from the objects of the spaces.
func (l *life) wanted(site string) (wants, error) {
	location, err := l.root.Resource(world.Locations).Get(l.t.Context(), site, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	want := wants{}
	for _, space := range spaceNames {
		placements := world.Listed{}
		if err := placements.Add(l.t.Context(), l.spaces[space].Resource(world.Placements), ""); err != nil {
			return nil, err
		}
		sources, err := l.sources(space)
		if err != nil {
			return nil, err
		}
		for k, u := range sources {
			group := u.GetLabels()["for"]
			placed := group != "" && placements["orrery.dev/Placement//"+group] != nil
			if placed && (group == always || location.GetLabels()[space+"-"+group] == "yes") {
				if want[k] == nil {
					want[k] = world.Listed{}
				}
				want[k][space] = u
			}
		}
	}
	return want, nil
}

// compare compares the objects of a site with the desired ones, and with the states that the hub
// reports, and returns the objects of the site.
func (l *life) compare(s *world.Site, want wants) (world.Listed, error) {
	have, err := s.Marked(l.World)
	if err != nil {
		return nil, err
	}
	var all []error
	for k, w := range want {
		if _, foreign := l.foreign[s.Name][k]; foreign {
			if have[k] != nil {
				all = append(all, fmt.Errorf("%s was taken over", k))
			}
			continue
		}
		h := have[k]
		if h == nil {
			all = append(all, fmt.Errorf("%s is assigned and does not exist", k))
			continue
		}
		space := spaceOf(h)
		if w[space] == nil {
			all = append(all, fmt.Errorf("%s comes from space %q, which does not assign it to the location", k, space))
		} else if diff := differs(w[space], h); diff != "" {
			all = append(all, fmt.Errorf("%s: %s", k, diff))
		}
	}
	for k := range have {
		if want[k] == nil {
			all = append(all, fmt.Errorf("%s exists and is not assigned", k))
		}
	}
	if len(all) == 0 {
		all = append(all, l.compareStates(s.Name, want, have))
	}
	return have, errors.Join(all...)
}

// differs returns how an object at a site differs from its source; empty if it does not.
func differs(source, placed *unstructured.Unstructured) string {
	switch {
	case placed.GetDeletionTimestamp() != nil:
		return "it is being deleted"
	case placed.GetAnnotations()["orrery.dev/source-uid"] != string(source.GetUID()):
		return "it names another source"
	case placed.GetLabels()["for"] != source.GetLabels()["for"]:
		return "its labels differ"
	case source.GetKind() == "ConfigMap" && !reflect.DeepEqual(source.Object["data"], placed.Object["data"]):
		return fmt.Sprintf("data is %v, want %v", placed.Object["data"], source.Object["data"])
	}
	for _, field := range []string{"data", "spec"} {
		if source.GetKind() == "Namespace" || source.Object[field] == nil {
			continue
		}
		if diff := world.Missing(map[string]any{field: source.Object[field]}, placed.Object); diff != "" {
			return diff
		}
	}
	return ""
}

// spaceOf returns the space that an object at a site names as the space of its source.
func spaceOf(u *unstructured.Unstructured) string { return u.GetLabels()["orrery.dev/space"] }

// kept checks that the spaces contain all writes that the hub acknowledged.
func (l *life) kept() error {
	var all []error
	for _, space := range spaceNames {
		sources, err := l.sources(space)
		if err != nil {
			return err
		}
		for _, k := range slices.Sorted(maps.Keys(l.promised)) {
			name, ok := strings.CutPrefix(k, space+"|")
			if !ok {
				continue
			}
			value := ""
			if u := sources[name]; u != nil {
				value = valueOf(u)
			}
			if value != l.promised[k] {
				all = append(all, fmt.Errorf("%s: the hub acknowledged %q and has %q", k, l.promised[k], value))
			}
		}
	}
	return errors.Join(all...)
}

// undisturbed checks that no object at a site was replaced unless the round moved it, and that no
// ConfigMap was written unless the round edited it.
func (l *life) undisturbed(site string, now world.Listed) error {
	var all []error
	for k, old := range l.before[site] {
		is := now[k]
		if is == nil || l.mayMove(site, old) {
			continue
		}
		if spaceOf(is) != spaceOf(old) {
			all = append(all, fmt.Errorf("location %s: %s went from space %q to %q", site, k, spaceOf(old), spaceOf(is)))
		}
		if l.mayMove(site, is) {
			continue
		}
		if is.GetUID() != old.GetUID() {
			all = append(all, fmt.Errorf("location %s: %s was replaced", site, k))
		}
		if old.GetKind() == "ConfigMap" && !l.edited[k] && !l.edited[spaceOf(old)+"|"+k] && is.GetResourceVersion() != old.GetResourceVersion() {
			all = append(all, fmt.Errorf("location %s: %s was written to without a reason: %s", site, k, changes(old.Object, is.Object)))
		}
	}
	return errors.Join(all...)
}

// sameVersions reports whether two lists of a site contain the same ConfigMaps in the same versions.
func sameVersions(a, b world.Listed) bool {
	versions := func(all world.Listed) map[string]string {
		byKey := map[string]string{}
		for k, u := range all {
			if u.GetKind() == "ConfigMap" {
				byKey[k] = u.GetResourceVersion()
			}
		}
		return byKey
	}
	return a != nil && maps.Equal(versions(a), versions(b))
}

// changes lists the differences between two versions of an object, field by field.
func changes(old, is map[string]any) string {
	var all []string
	names := maps.Clone(old)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		before, isMap := old[name].(map[string]any)
		after, staysMap := is[name].(map[string]any)
		switch {
		case reflect.DeepEqual(old[name], is[name]):
		case isMap && staysMap:
			all = append(all, name+": {"+changes(before, after)+"}")
		default:
			all = append(all, fmt.Sprintf("%s: %v -> %v", name, old[name], is[name]))
		}
	}
	return strings.Join(all, ", ")
}

// mayMove reports whether the round did something that can remove an object from its site and
// create it again.
func (l *life) mayMove(site string, u *unstructured.Unstructured) bool {
	space, k, namespace := spaceOf(u), world.KeyOf(u), u.GetNamespace()
	if u.GetKind() == "Namespace" {
		namespace = u.GetName()
	}
	definition := u.GetKind() == "Widget" || u.GetKind() == "CustomResourceDefinition"
	return l.moved[k] || l.moved[space+"|"+k] || l.moved["space|"+space] || l.moved["namespace|"+space+"|"+namespace] || definition && l.moved["definition|"+space] ||
		l.moved[site+"|"+space+"|"+u.GetLabels()["for"]]
}

// foreignUntouched checks that objects that Orrery did not create are unchanged.
func (l *life) foreignUntouched(s *world.Site) error {
	var all []error
	for k, uid := range l.foreign[s.Name] {
		fields := strings.Split(k, "/")
		gvr := world.ConfigMaps
		if fields[1] == "Widget" {
			gvr = schema.GroupVersionResource{Group: fields[0], Version: "v1", Resource: "widgets"}
		}
		u, err := s.Get(l.t, gvr, fields[2], fields[3])
		switch {
		case err != nil:
			all = append(all, fmt.Errorf("location %s: the foreign %s: %w", s.Name, k, err))
		case u.GetUID() != uid || valueOf(u) != "foreign":
			all = append(all, fmt.Errorf("location %s: the foreign %s was touched", s.Name, k))
		}
	}
	return errors.Join(all...)
}
