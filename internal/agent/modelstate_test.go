package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// checkChange checks a change that the agent is about to make, with the cluster's lock.
func (w *world) checkChange(verb string, before, after *thing) {
	o := after
	if o == nil {
		o = before
	}
	wrong := func(format string, args ...any) {
		w.bad = append(w.bad, fmt.Sprintf("%s %s: ", verb, o.id)+fmt.Sprintf(format, args...))
	}
	w.tell("    agent: %s %s", verb, o.id)
	if w.frozen {
		wrong("while paused")
	}
	w.judgeLog(verb, before, wrong)
	wanted, orphan := w.options(o.id)
	switch verb {
	case "apply":
		w.judgeApply(before, after, wanted, wrong)
	case "create": // a namespace that no Placement put there
		after.foreign = true
	case "let go":
		if !w.unwanted(o.id) || !orphan && !w.forgot {
			wrong("it is not to be let go")
		}
		if after.owners[releasedOwner] != nil {
			wrong("something of it is still released")
		}
		after.foreign = true
	case "hand over":
		if !maps.Equal(before.fields, after.fields) || !before.ownsAll(after) || before.ownedBy(false) != after.ownedBy(false) {
			wrong("something else than managed fields of ours has changed")
		}
	case "take over":
		if before.foreign || before.meta("labels", v1alpha1.LocationLabel) != former || after.meta("labels", v1alpha1.LocationLabel) != string(ownership.NewOwner("paris", w.hub.uid)) {
			wrong("it is not to be taken over")
		}
		if before.content() != after.content() || before.ownedBy(true) != after.ownedBy(true) || before.ownedBy(false) != after.ownedBy(false) {
			wrong("something else of it has changed")
		}
	case "refresh":
		used := slices.ContainsFunc(w.inside(o.id), func(x *thing) bool { return w.blocks(x, o.id) || !w.unwanted(x.id) })
		if before.foreign || before.meta("annotations", v1alpha1.LogAnnotation) == after.meta("annotations", v1alpha1.LogAnnotation) || len(wanted) == 0 && !used {
			wrong("its pair is not to be refreshed")
		}
	case "mark":
		if !slices.ContainsFunc(wanted, func(p *wire.Put) bool {
			former := p.Policy.ReportDrift && before.meta("labels", v1alpha1.LocationLabel) != string(ownership.NewOwner("paris", w.hub.uid))
			return former || p.Policy.CreateOnly && (!before.foreign || p.Policy.Adopt && !before.controlled || implied(before))
		}) {
			wrong("it is not to be marked")
		}
		after.foreign = false
	case "delete":
		switch {
		case before.foreign:
			wrong("it is not ours")
		case !w.unwanted(o.id) && !slices.ContainsFunc(wanted, func(p *wire.Put) bool {
			fixed := differs(before, w.enforced(p.Digest, p.Policy))
			return fixed && p.Policy.Recreate || (fixed || decide.RunsOnce(o.id.Resource)) && succeeds(p, before)
		}):
			wrong("nobody said that it is to go")
		case w.stays(before) && w.unwanted(o.id):
			wrong("it is to be let go")
		}
		if x := w.before(before); x != nil && w.unwanted(o.id) {
			wrong("%s, which leaves with it, has not ended", x.id)
		}
		for _, x := range w.inside(o.id) {
			seen := max(w.cluster.listed[collection{x.id.Resource, ""}], w.cluster.listed[collection{x.id.Resource, x.id.Namespace}])
			if x.created <= seen && w.blocks(x, o.id) {
				wrong("%s is in it", x.id)
			}
		}
	default:
		wrong("that is not to be done")
	}
}

// succeeds reports whether an object at the target was made for another source object than a put's.
func succeeds(p *wire.Put, o *thing) bool {
	return p.UID != o.meta("annotations", v1alpha1.SourceUIDAnnotation) || !strings.HasPrefix(p.Key, o.meta("labels", v1alpha1.SpaceLabel)+"/")
}

var releasedOwner = owner{ownership.ReleasedManager, "Apply"}

// ownedBy describes the owners of the fields; with ours, only the fields that the agent owns.
func (o *thing) ownedBy(ours bool) string {
	var all []string
	for m, paths := range o.owners {
		for p := range paths {
			switch ourselves := m == releasedOwner || strings.HasPrefix(m.manager, "orrery/"); {
			case ourselves && ours:
				if !isMark(p) { // which the next apply owns
					all = append(all, p)
				}
			case !ourselves && !ours:
				all = append(all, m.manager+" "+m.operation+" "+p)
			}
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "\n")
}

// ownsAll reports whether we own the same of an object before and after a change, but for released fields that
// no manager owns any more.
func (o *thing) ownsAll(after *thing) bool {
	still, before := strings.Split(after.ownedBy(true), "\n"), strings.Split(o.ownedBy(true), "\n")
	for _, p := range before {
		if !slices.Contains(still, p) && !o.owners[releasedOwner][p] {
			return false
		}
	}
	return len(still) <= len(before)
}

// releasedBy are the fields that a policy releases.
func releasedBy(p wire.Policy) map[string]bool {
	out := map[string]bool{}
	for path, field := range map[string]string{
		"$.data.v": fieldPath("data", "v"), "$.data['more']": fieldPath("data", "more"),
		"$.data.fixed": fieldPath("data", "fixed"), "$.metadata.labels.l": fieldPath("metadata", "labels", "l"),
	} {
		if slices.Contains(strings.Split(p.Release, "\n"), path) {
			out[field] = true
		}
	}
	return out
}

// enforced are the fields of a rendering that are not released.
func (w *world) enforced(d wire.Sum, p wire.Policy) map[string]string {
	out := releasedBy(p)
	rest := maps.Clone(w.sources[d])
	maps.DeleteFunc(rest, func(p, _ string) bool { return out[p] })
	return rest
}

// left reports whether the apply did not change the released fields.
func left(before, after *thing, p wire.Policy) bool {
	for path := range releasedBy(p) {
		previous, existed := before.fields[path]
		if is, exists := after.fields[path]; is != previous || exists != existed {
			return false
		}
	}
	return true
}

// stays reports whether every policy with which the object was desired keeps it when it is no
// longer desired.
func (w *world) stays(o *thing) bool {
	known := false
	for _, p := range w.allPuts {
		if p.UID != o.meta("annotations", v1alpha1.SourceUIDAnnotation) || !strings.HasPrefix(p.Key, o.meta("labels", v1alpha1.SpaceLabel)+"/") || w.placeOf(p.Key) != o.id {
			continue
		}
		if known = true; !p.Policy.Orphan {
			return false
		}
	}
	return known
}

func (w *world) judgeApply(before, after *thing, wanted []*wire.Put, wrong func(string, ...any)) {
	var applied map[string]string
	for m, paths := range after.owners {
		if strings.HasPrefix(m.manager, "orrery/") && m.operation == "Apply" {
			applied = map[string]string{}
			for p := range paths {
				if !isMark(p) {
					applied[p] = after.fields[p]
				}
			}
		}
	}
	foreign := before != nil && before.foreign
	fits := false
	w.judgeFirst(before, after, wrong)
	for _, p := range wanted {
		whole := before == nil && maps.Equal(applied, w.sources[p.Digest]) ||
			before != nil && maps.Equal(applied, w.enforced(p.Digest, p.Policy)) && left(before, after, p.Policy)
		switch {
		case foreign && !p.Policy.Adopt && !implied(before):
		case foreign && (before.controlled || strings.HasPrefix(before.meta("labels", v1alpha1.LocationLabel), "rome.")):
		case whole:
			fits = true
		}
	}
	if !fits {
		wrong("%v is not what is desired, or not to be applied to that", applied)
	}
	const uid = v1alpha1.SourceUIDAnnotation
	if before != nil && !foreign && decide.RunsOnce(before.id.Resource) && before.meta("annotations", uid) != after.meta("annotations", uid) {
		wrong("what ran for another source object is taken for this one's")
	}
	after.foreign = false
}

// implied reports whether an object is a namespace that the agent created for the objects in it.
func implied(o *thing) bool { return o.meta("annotations", v1alpha1.ImpliedAnnotation) != "" }

func isMark(p string) bool {
	return strings.HasPrefix(p, "metadata/labels/orrery.dev") || strings.HasPrefix(p, "metadata/annotations/orrery.dev")
}

// options are the puts that may be followed of an identity.
func (w *world) options(id key.Identity) (all []*wire.Put, orphan bool) {
	for _, k := range w.spaceKeys(id) {
		for sum := range w.allowed[k] {
			if p := w.allPuts[sum]; p != nil {
				all, orphan = append(all, p), orphan || p.Policy.Orphan
			}
		}
	}
	for sum, p := range w.allPuts { // what was orphaned before it ceased to be desired
		_ = sum
		if w.placeOf(p.Key) == id && p.Policy.Orphan {
			orphan = true
		}
	}
	return all, orphan
}

// unwanted reports whether the location need not have an identity.
func (w *world) unwanted(id key.Identity) bool {
	for _, k := range w.spaceKeys(id) {
		if _, known := w.allowed[k]; known && !w.gone[k] {
			return false
		}
	}
	return true
}

// inside are the objects in a namespace or of a definition.
func (w *world) inside(id key.Identity) (all []*thing) {
	for _, o := range w.cluster.objects {
		if id.Resource == key.Namespaces && o.id.Namespace == id.Name || id == widgetsCRD && o.id.APIGroup() == "example.com" {
			all = append(all, o)
		}
	}
	return all
}

// blocks reports whether an object prevents the removal of its namespace or definition: it does
// not belong to the agent, and is not removed with another object in there.
func (w *world) blocks(o *thing, in key.Identity) bool {
	if !o.foreign {
		return false
	}
	return !o.controlled || !slices.ContainsFunc(w.inside(in), func(x *thing) bool { return x.uid == o.controller.UID })
}
