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

// long is after how long the test notes that not everything is as desired yet.
const long = 20 * time.Second

var (
	errRuns        = errors.New("it still runs")
	errTerminating = errors.New("it is still terminating")
	errMoves       = errors.New("it was still written to between two readings")
)

// settle waits until every site is what the spaces say, by a reading of the
// spaces that knows nothing of views, and checks that nothing else happened. What the round did has
// come to each site then: what is written last has, and nothing was written between two readings. Or
// what comes late of it would be taken for something without a reason in the next round.
func (l *life) settle(round int64) {
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

// sources lists what users wrote in a space.
func (l *life) sources(space string) (world.Listed, error) {
	all := world.Listed{}
	for _, r := range []schema.GroupVersionResource{world.Namespaces, world.ConfigMaps, world.Deployments, widgets(space), gadgets, world.CRDs} {
		if err := all.Add(l.t.Context(), l.spaces[space].Resource(r), ""); err != nil {
			return nil, fmt.Errorf("list %s in space %q: %w", r.Resource, space, err)
		}
	}
	return all, nil
}

// wants are what is desired at a location: by key and, where several spaces desire the
// same identity, by space.
type wants map[string]world.Listed

// wanted reads from the spaces what is desired at a location.
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

// compare compares a site with what is desired there, object by object, and with what
// it is said to have, and returns what it has.
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
			all = append(all, fmt.Errorf("%s is assigned and not there", k))
			continue
		}
		space := spaceOf(h)
		if w[space] == nil {
			all = append(all, fmt.Errorf("%s is that of space %q, which does not place it there", k, space))
		} else if diff := differs(w[space], h); diff != "" {
			all = append(all, fmt.Errorf("%s: %s", k, diff))
		}
	}
	for k := range have {
		if want[k] == nil {
			all = append(all, fmt.Errorf("%s is there and not assigned", k))
		}
	}
	if len(all) == 0 {
		all = append(all, l.told(s.Name, want, have))
	}
	return have, errors.Join(all...)
}

// differs says in what an object at a site is not its source.
func differs(source, at *unstructured.Unstructured) string {
	switch {
	case at.GetDeletionTimestamp() != nil:
		return "it is being deleted"
	case at.GetAnnotations()["orrery.dev/source-uid"] != string(source.GetUID()):
		return "it names another source"
	case at.GetLabels()["for"] != source.GetLabels()["for"]:
		return "its labels differ"
	case source.GetKind() == "ConfigMap" && !reflect.DeepEqual(source.Object["data"], at.Object["data"]):
		return fmt.Sprintf("data is %v, want %v", at.Object["data"], source.Object["data"])
	}
	for _, field := range []string{"data", "spec"} {
		if source.GetKind() == "Namespace" || source.Object[field] == nil {
			continue
		}
		if diff := world.Missing(map[string]any{field: source.Object[field]}, at.Object); diff != "" {
			return diff
		}
	}
	return ""
}

// spaceOf is the space that an object at a site names as its source's.
func spaceOf(u *unstructured.Unstructured) string { return u.GetLabels()["orrery.dev/space"] }

// kept checks that the spaces hold what the hub acknowledged.
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

// undisturbed checks that no object at a site was replaced unless something moved it, and
// that no ConfigMap was written unless somebody edited it.
func (l *life) undisturbed(site string, now world.Listed) error {
	var all []error
	for k, was := range l.before[site] {
		is := now[k]
		if is == nil || l.mayMove(site, was) {
			continue
		}
		if spaceOf(is) != spaceOf(was) {
			all = append(all, fmt.Errorf("location %s: %s went from space %q to %q", site, k, spaceOf(was), spaceOf(is)))
		}
		if l.mayMove(site, is) {
			continue
		}
		if is.GetUID() != was.GetUID() {
			all = append(all, fmt.Errorf("location %s: %s was replaced", site, k))
		}
		if was.GetKind() == "ConfigMap" && !l.edited[k] && !l.edited[spaceOf(was)+"|"+k] && is.GetResourceVersion() != was.GetResourceVersion() {
			all = append(all, fmt.Errorf("location %s: %s was written to without a reason: %s", site, k, changes(was.Object, is.Object)))
		}
	}
	return errors.Join(all...)
}

// sameVersions says that two readings of a site show the same ConfigMaps in the same versions.
func sameVersions(a, b world.Listed) bool {
	versions := func(all world.Listed) map[string]string {
		of := map[string]string{}
		for k, u := range all {
			if u.GetKind() == "ConfigMap" {
				of[k] = u.GetResourceVersion()
			}
		}
		return of
	}
	return a != nil && maps.Equal(versions(a), versions(b))
}

// changes says what differs between two readings of an object, field by field.
func changes(was, is map[string]any) string {
	var all []string
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		before, isMap := was[name].(map[string]any)
		after, staysMap := is[name].(map[string]any)
		switch {
		case reflect.DeepEqual(was[name], is[name]):
		case isMap && staysMap:
			all = append(all, name+": {"+changes(before, after)+"}")
		default:
			all = append(all, fmt.Sprintf("%s: %v -> %v", name, was[name], is[name]))
		}
	}
	return strings.Join(all, ", ")
}

// mayMove says whether something happened in this round by which an object can
// leave its site and come back.
func (l *life) mayMove(site string, u *unstructured.Unstructured) bool {
	space, k, namespace := spaceOf(u), world.KeyOf(u), u.GetNamespace()
	if u.GetKind() == "Namespace" {
		namespace = u.GetName()
	}
	definition := u.GetKind() == "Widget" || u.GetKind() == "CustomResourceDefinition"
	return l.moved[k] || l.moved[space+"|"+k] || l.moved["space|"+space] || l.moved["namespace|"+space+"|"+namespace] || definition && l.moved["definition|"+space] ||
		l.moved[site+"|"+space+"|"+u.GetLabels()["for"]]
}

// foreignUntouched checks that what Orrery did not make is as it was made. What
// was in a namespace that is gone is gone with it.
func (l *life) foreignUntouched(s *world.Site) error {
	var all []error
	for k, uid := range l.foreign[s.Name] {
		part := strings.Split(k, "/")
		gvr := world.ConfigMaps
		if part[1] == "Widget" {
			gvr = schema.GroupVersionResource{Group: part[0], Version: "v1", Resource: "widgets"}
		}
		u, err := s.Get(l.t, gvr, part[2], part[3])
		switch {
		case err != nil:
			all = append(all, fmt.Errorf("location %s: the foreign %s: %w", s.Name, k, err))
		case u.GetUID() != uid || valueOf(u) != "foreign":
			all = append(all, fmt.Errorf("location %s: the foreign %s was touched", s.Name, k))
		}
	}
	return errors.Join(all...)
}
