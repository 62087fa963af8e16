package mapper

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

// judge looks at a change that the agent is about to make, with the cluster's lock.
func (w *world) judge(verb string, before, after *thing) {
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
	wanted, orphan := w.options(o.id)
	switch verb {
	case "apply":
		w.judgeApply(before, after, wanted, wrong)
	case "create": // a namespace that nobody placed
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
		if !maps.Equal(before.fields, after.fields) || before.ownedBy(true) != after.ownedBy(true) || before.ownedBy(false) != after.ownedBy(false) {
			wrong("something else than managed fields of ours has changed")
		}
	case "mark":
		if !slices.ContainsFunc(wanted, func(p *wire.Put) bool {
			return p.Policy.CreateOnly && (!before.foreign || p.Policy.Adopt && !before.controlled || implied(before))
		}) {
			wrong("it is not to be marked")
		}
		after.foreign = false
	case "delete":
		switch {
		case before.foreign:
			wrong("it is not ours")
		case !w.unwanted(o.id) && !slices.ContainsFunc(wanted, func(p *wire.Put) bool { return p.Policy.Recreate && differs(before, w.enforced(p.Digest, p.Policy)) }):
			wrong("nobody said that it is to go")
		case w.stays(before) && w.unwanted(o.id):
			wrong("it is to be let go")
		}
		for _, x := range w.inside(o.id) {
			if x.foreign && x.created <= w.cluster.listed[x.id.Resource] && !x.controlled {
				wrong("%s is in it", x.id)
			}
		}
	default:
		wrong("that is not to be done")
	}
}

var releasedOwner = owner{releasedManager, "Apply"}

// ownedBy is who owns what, or, with ours, what we own together.
func (o *thing) ownedBy(ours bool) string {
	var all []string
	for m, paths := range o.owners {
		for p := range paths {
			switch ourselves := m == releasedOwner || strings.HasPrefix(m.manager, managerPrefix); {
			case ourselves && ours:
				all = append(all, p)
			case !ourselves && !ours:
				all = append(all, m.manager+" "+m.operation+" "+p)
			}
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "\n")
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

// left says that the apply did not change what is released.
func left(before, after *thing, p wire.Policy) bool {
	for path := range releasedBy(p) {
		was, had := before.fields[path]
		if is, has := after.fields[path]; is != was || has != had {
			return false
		}
	}
	return true
}

// stays says that an object was always to stay when it is not desired any more.
func (w *world) stays(o *thing) bool {
	known := false
	for _, p := range w.puts {
		if p.UID != o.meta("annotations", v1alpha1.SourceUIDAnnotation) || p.Key != o.meta("labels", v1alpha1.SpaceLabel)+"/"+o.id.String() {
			continue
		}
		if known = true; !p.Policy.Orphan {
			return false
		}
	}
	return known
}

// differs says that a fixed field is to change.
func differs(o *thing, fields map[string]string) bool {
	p := fieldPath("data", "fixed")
	return o.fields[p] != "" && fields[p] != "" && o.fields[p] != fields[p]
}

func (w *world) judgeApply(before, after *thing, wanted []*wire.Put, wrong func(string, ...any)) {
	var applied map[string]string
	for m, paths := range after.owners {
		if strings.HasPrefix(m.manager, managerPrefix) && m.operation == "Apply" {
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
	for _, p := range wanted {
		whole := before == nil && maps.Equal(applied, w.sources[p.Digest]) ||
			before != nil && maps.Equal(applied, w.enforced(p.Digest, p.Policy)) && left(before, after, p.Policy)
		switch {
		case foreign && !p.Policy.Adopt && !implied(before):
		case foreign && (before.controlled || strings.HasPrefix(before.meta("labels", locationLabel), "rome.")):
		case whole:
			fits = true
		}
	}
	if !fits {
		wrong("%v is not what is desired, or not to be applied to that", applied)
	}
	after.foreign = false
}

// implied says that an object is a namespace that the agent made for what is in it.
func implied(o *thing) bool { return o.meta("annotations", impliedMark) != "" }

func isMark(p string) bool {
	return strings.HasPrefix(p, "metadata/labels/orrery.dev") || strings.HasPrefix(p, "metadata/annotations/orrery.dev")
}

// options are the puts that may be followed of an identity.
func (w *world) options(id key.Identity) (all []*wire.Put, orphan bool) {
	for _, k := range spaceKeys(id) {
		for sum := range w.allowed[k] {
			if p := w.puts[sum]; p != nil {
				all, orphan = append(all, p), orphan || p.Policy.Orphan
			}
		}
	}
	for sum, p := range w.puts { // what was orphaned before it ceased to be desired
		_ = sum
		if o, err := key.ParsePath(p.Key); err == nil && o.Identity == id && p.Policy.Orphan {
			orphan = true
		}
	}
	return all, orphan
}

// unwanted says that the location need not have an identity.
func (w *world) unwanted(id key.Identity) bool {
	for _, k := range spaceKeys(id) {
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

// check compares everything with what was promised.
func (w *world) check() error {
	if !w.full && w.agent.store.failing.Load() != nil {
		return errors.New("the store fails")
	}
	desired, reports, m := w.contentOf(), w.reportsOf(), w.agent.store.meta.Load()
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	if len(w.bad) > 0 {
		return errors.New(strings.Join(w.bad, "\n"))
	}
	for _, o := range w.cluster.objects {
		if o.terminating {
			return fmt.Errorf("%s is being deleted", o.id)
		}
	}
	heard := w.heard()
	if err := w.checkContent(desired, heard); err != nil {
		return err
	}
	if m.Settings.Halt != "" {
		if heard && w.hub.settings.Halt == "" {
			return errors.New("it is still paused")
		}
		return nil
	}
	if heard && w.hub.settings.Halt != "" {
		return errors.New("it is not paused yet")
	}
	if m.Revision == 0 && !heard {
		return nil // it knows nothing, so it does nothing; the judge saw to that
	}
	for _, id := range identities {
		if err := w.checkIdentity(id, desired, reports); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
	}
	if !heard {
		return nil
	}
	if m.Unsent > 0 {
		return fmt.Errorf("%d reports are not sent", m.Unsent)
	}
	for _, k := range slices.Sorted(maps.Keys(reports)) {
		if r, ok := w.hub.reports[k]; !ok || r.Sum() != reports[k].Sum() {
			return fmt.Errorf("the hub's report of %s is %+v, ours %+v", k, r, reports[k])
		}
	}
	for k := range w.hub.reports {
		if _, ok := reports[k]; !ok {
			return fmt.Errorf("the hub has a report of %s, we have none", k)
		}
	}
	return nil
}

// checkContent compares the desired content with the hub's, or with what it was.
func (w *world) checkContent(desired map[string]want, heard bool) error {
	content := w.hub.content(w.hub.revision)
	broken := w.broken()
	for k, x := range desired {
		was, known := w.believed[k]
		switch f, ok := content[k]; {
		case broken && known:
			if was.sum(k) != x.sum(k) {
				return fmt.Errorf("%s changed without proof of lineage", k)
			}
			if heard && x.Deferred != (!ok || leafOf(f) != x.sum(k)) {
				return fmt.Errorf("%s: a change of it is deferred: %v", k, x.Deferred)
			}
		case heard && !broken && (!ok || leafOf(f) != x.sum(k)):
			return fmt.Errorf("%s is not what the hub says", k)
		case !w.allowed[k][x.sum(k)] && !(known && was.sum(k) == x.sum(k)):
			return fmt.Errorf("%s is what no hub ever said", k)
		}
	}
	for k := range w.believed {
		if _, ok := desired[k]; !ok && !w.gone[k] {
			return fmt.Errorf("%s is not desired any more, and nobody said so", k)
		}
	}
	for k := range content {
		if _, ok := desired[k]; !ok && heard {
			return fmt.Errorf("%s is not desired yet", k)
		}
	}
	return nil
}

// winner is the entry to follow of an identity, and its key.
func (w *world) winner(id key.Identity, desired map[string]want) (k string, x *want) {
	o := w.cluster.objects[id.String()]
	for _, candidate := range spaceKeys(id) {
		y, ok := desired[candidate]
		if !ok || y.object() == nil {
			continue
		}
		space, _, _ := strings.Cut(candidate, "/")
		if x == nil || o != nil && !o.foreign && o.meta("labels", v1alpha1.SpaceLabel) == space {
			k, x = candidate, &y
		}
	}
	return k, x
}

// expectation is what is promised of an identity: a state of its report, with
// perhaps a reason, or an error that says what is wrong at the cluster.
func (w *world) checkIdentity(id key.Identity, desired map[string]want, reports map[string]wire.Report) error {
	o := w.cluster.objects[id.String()]
	k, x := w.winner(id, desired)
	if x == nil {
		if w.full {
			return nil
		}
		return w.checkUnwanted(id, o, desired, reports)
	}
	for _, other := range spaceKeys(id) {
		if y, ok := desired[other]; ok && other != k && !w.full && !y.Deferred && reports[other].State != wire.InConflict && y.Kind != wantHold {
			return fmt.Errorf("the report of %s, which does not win, is %+v", other, reports[other])
		}
	}
	state, reason, err := w.expect(id, o, x, reports[k])
	if err != nil {
		return err
	}
	if w.full {
		return nil // what is reported waits for room
	}
	r := reports[k]
	switch {
	case x.Deferred:
		state, reason = wire.Waiting, "LineageUnproven"
	case x.Kind == wantHold:
		state, reason = wire.Held, "RuleFailed"
	}
	if r.State != state || reason != "*" && r.Reason != reason && r.Reason != reasonContested {
		return fmt.Errorf("the report says %s/%s (%s), not %s/%s", r.State, r.Reason, r.Message, state, reason)
	}
	if s := x.object(); state == wire.Applied && (r.Digest != s.Digest || r.UID != s.UID || r.Orphan != s.Policy.Orphan) {
		return fmt.Errorf("the report is of another object: %+v", r)
	}
	if o != nil && !o.foreign && x.Kind == wantPut && x.Leaf.Policy.ReturnStatus {
		if now, said := gjson.Get(o.status, "n").Raw, gjson.GetBytes(r.Status, "n").Raw; now != said {
			return fmt.Errorf("the report's status says %q, not %q", said, now)
		}
	}
	return nil
}

func (w *world) expect(id key.Identity, o *thing, x *want, r wire.Report) (wire.State, string, error) {
	s := x.object()
	rest, v := w.enforced(s.Digest, s.Policy), fieldPath("data", "v")
	bad := w.sources[s.Digest][v] == `"bad"`
	if bad && o != nil && rest[v] == "" && !differs(o, rest) {
		// It is not applied, unless it takes a dry run to learn whether it can be released.
		bad = !slices.ContainsFunc(slices.Collect(maps.Keys(o.fields)), func(p string) bool { return strings.HasPrefix(p, "data/") && o.ownedByAny(p) })
	}
	in := w.cluster.objects[key.Identity{Resource: key.Namespaces, Name: id.Namespace}.String()]
	switch {
	case !w.cluster.serves(id.Resource):
		return wire.Unsupported, "NoSuchResource", nil
	case r.Completed != "" && r.Digest == s.Digest && r.UID == s.UID && (o == nil || !o.foreign):
		if o != nil && !s.Policy.CreateOnly && !w.equals(o, s) {
			return "", "", errors.New("what has ended is not as it was")
		}
		return wire.Applied, "*", nil
	case r.Completed != "" && o == nil:
		return wire.Applied, reasonCompleted, nil
	case o != nil && o.foreign && !implied(o) && (!s.Policy.Adopt || o.controlled):
		return wire.InConflict, "Exists", nil
	case o != nil && s.Policy.CreateOnly && !o.foreign && o.meta("annotations", v1alpha1.SourceUIDAnnotation) == s.UID:
		return wire.Applied, reasonCreateOnly, nil
	case o != nil && o.foreign && !o.controlled && s.Policy.Adopt && s.Policy.CreateOnly: // whatever is desired, it may stay
		return "", "", errors.New("it is not adopted")
	case bad && (o == nil || !w.equals(o, s)):
		return wire.Failed, "*", nil
	case o == nil && (id.Namespace == "" || in == nil || !in.terminating):
		return "", "", errors.New("it is missing")
	case o == nil:
		return "", "", errors.New("its namespace is being deleted")
	case differs(o, rest) && !s.Policy.Recreate && !o.foreign:
		return wire.Failed, "*", nil
	case o.foreign:
		return "", "", errors.New("it is not adopted")
	case s.Policy.CreateOnly:
		return wire.Applied, reasonCreateOnly, nil
	case w.equals(o, s):
		return wire.Applied, "", nil
	case s.Policy.ReportDrift && o.meta("annotations", v1alpha1.SourceUIDAnnotation) == s.UID:
		return wire.Failed, "Drifted", nil
	}
	return "", "", fmt.Errorf("it is %v, not %v, and owned by %v", o.fields, rest, o.owners)
}

// equals says that an object has our marks and what is desired, and nothing that
// is left of what was desired before. What is released of it may be anything, and
// is not ours.
func (w *world) equals(o *thing, s *source) bool {
	fields, out := w.enforced(s.Digest, s.Policy), releasedBy(s.Policy)
	if o.meta("labels", locationLabel) == "" || o.meta("annotations", v1alpha1.SourceNameAnnotation) != o.id.Name {
		return false
	}
	for p, v := range fields {
		if o.fields[p] != v {
			return false
		}
	}
	for p := range o.fields {
		if _, ok := fields[p]; !ok && !out[p] && !isMark(p) && !o.ownedByAny(p) && p != fieldPath("data", "admitted") {
			return false
		}
	}
	for m, paths := range o.owners {
		for p := range paths {
			_, ok := fields[p]
			switch ours := strings.HasPrefix(m.manager, managerPrefix); {
			case ours && out[p] && s.Policy.ReportDrift: // an inspection changes nothing
			case ours && !ok && !isMark(p), m == releasedOwner && !out[p]:
				return false
			}
		}
	}
	return true
}

// checkUnwanted is about an identity that nobody wants, or of which nobody has
// an object.
func (w *world) checkUnwanted(id key.Identity, o *thing, desired map[string]want, reports map[string]wire.Report) error {
	for _, k := range spaceKeys(id) {
		x, ok := desired[k]
		if !ok {
			continue
		}
		state := map[wantKind]wire.State{wantHold: wire.Held, wantConflict: wire.InConflict}[x.Kind]
		if x.Deferred {
			state = wire.Waiting
		}
		if reports[k].State != state {
			return fmt.Errorf("the report of %s is %+v, not %s", k, reports[k], state)
		}
		return nil // what is there stays
	}
	if o != nil && !o.foreign {
		used := false
		for _, x := range w.inside(id) {
			used = used || x.foreign && !x.controlled
		}
		// Of what is held and was never heard of, nobody knows whether it is there.
		perhaps := false
		for k, entry := range desired {
			x, err := key.ParsePath(k)
			if err != nil || !slices.Contains(containers(x.Identity), id.String()) {
				continue
			}
			used = used || w.cluster.objects[x.Identity.String()] != nil
			perhaps = perhaps || entry.object() == nil
		}
		if w.lost && time.Since(w.settling) > 100*time.Second {
			return nil
		}
		state := wire.State("")
		for _, k := range spaceKeys(id) {
			if r, ok := reports[k]; ok {
				state = r.State
			}
		}
		if !used && !(perhaps && state == wire.Orphaned) {
			return fmt.Errorf("it is not to be there any more; the reports are %+v", reports)
		}
		if used && state != wire.Orphaned {
			return fmt.Errorf("it is in use, and reported %q", state)
		}
		return nil
	}
	if w.recordOf(id) != nil {
		return errors.New("there is still a record of it")
	}
	for _, k := range spaceKeys(id) {
		if r, ok := reports[k]; ok {
			return fmt.Errorf("there is still a report of %s: %+v", k, r)
		}
	}
	return nil
}
