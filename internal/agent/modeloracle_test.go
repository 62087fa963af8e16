package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/health"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// check compares the cluster, the reports and the store with the promises of the agent.
func (w *world) check() error {
	if !w.full && w.agent.store.Failing() != nil {
		return errors.New("the store fails")
	}
	desired, reports, m := w.contentOf(), w.reportsOf(), w.agent.store.Meta()
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
		if o.controlled && w.cluster.ownerOf(o) == nil {
			return fmt.Errorf("%s is yet to be collected", o.id)
		}
	}
	reachable := w.hubReachable()
	if err := w.checkContent(desired, reachable); err != nil {
		return err
	}
	if m.Settings.Halt != "" {
		if reachable && w.hub.settings.Halt == "" && !w.pauseWaits() {
			return errors.New("it is still paused")
		}
		return w.checkHalted(desired, reports)
	}
	if reachable && w.hub.settings.Halt != "" {
		return errors.New("it is not paused yet")
	}
	if m.Revision == 0 && !reachable {
		return nil // it knows nothing, so it does nothing; the judge saw to that
	}
	for _, id := range w.ids {
		if err := w.checkIdentity(id, desired, reports); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
	}
	if !reachable {
		return nil
	}
	if m.Unsent > 0 {
		return fmt.Errorf("%d reports are not sent", m.Unsent)
	}
	content := w.hub.content(w.hub.revision)
	for _, k := range slices.Sorted(maps.Keys(reports)) {
		r, ok := w.hub.reports[k]
		if _, assigned := content[k]; !ok && !assigned {
			continue // it is not taken
		}
		if !ok || r.Sum() != reports[k].Sum() {
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

// checkContent compares the desired objects in the store with the hub's, or with the last settled ones.
func (w *world) checkContent(desired map[string]store.Want, reachable bool) error {
	content := w.hub.content(w.hub.revision)
	broken := w.broken()
	for k, x := range desired {
		previous, known := w.believed[k]
		switch f, ok := content[k]; {
		case broken && known:
			if previous.Sum(k) != x.Sum(k) {
				return fmt.Errorf("%s changed without proof of lineage", k)
			}
			if reachable && x.Deferred != (!ok || leafOf(f) != x.Sum(k)) {
				return fmt.Errorf("%s: a change of it is deferred: %v", k, x.Deferred)
			}
		case reachable && !broken && (!ok || leafOf(f) != x.Sum(k)):
			return fmt.Errorf("%s is not what the hub says", k)
		case !w.allowed[k][x.Sum(k)] && !(known && previous.Sum(k) == x.Sum(k)):
			return fmt.Errorf("%s is what no hub ever said", k)
		}
	}
	for k := range w.believed {
		if _, ok := desired[k]; !ok && !w.gone[k] {
			return fmt.Errorf("%s is not desired any more, and nobody said so", k)
		}
	}
	for k := range content {
		if _, ok := desired[k]; !ok && reachable {
			return fmt.Errorf("%s is not desired yet", k)
		}
	}
	return nil
}

// winner is the entry to follow of an identity, and its key.
func (w *world) winner(id key.Identity, desired map[string]store.Want) (k string, x *store.Want) {
	o := w.cluster.objects[id.String()]
	for _, candidate := range w.spaceKeys(id) {
		y, ok := desired[candidate]
		if !ok || y.Object() == nil {
			continue
		}
		space, _, _ := strings.Cut(candidate, "/")
		if x == nil || o != nil && !o.foreign && o.meta("labels", v1alpha1.SpaceLabel) == space {
			k, x = candidate, &y
		}
	}
	return k, x
}

// checkIdentity compares the object of an identity at the cluster, and its report, with the promises
// for it. It returns an error that describes the difference.
func (w *world) checkIdentity(id key.Identity, desired map[string]store.Want, reports map[string]wire.Report) error {
	o := w.cluster.objects[id.String()]
	k, x := w.winner(id, desired)
	if x == nil {
		if w.full {
			return nil
		}
		return w.checkUnwanted(id, o, desired, reports)
	}
	for _, other := range w.spaceKeys(id) {
		if y, ok := desired[other]; ok && other != k && y.Desired() && !w.full && !y.Deferred && reports[other].State != wire.InConflict && y.Kind != store.WantHold {
			return fmt.Errorf("the report of %s, which does not win, is %+v", other, reports[other])
		}
	}
	if w.waits(o) {
		if r := reports[k]; w.hubReachable() && !w.full && x.Kind == store.WantPut && r.Reason != v1alpha1.ReasonLogUnproven {
			return fmt.Errorf("it waits for an acceptance, and the report says %s/%s", r.State, r.Reason)
		}
		return nil
	}
	if x.Unannounced && (!w.hubReachable() || w.broken()) && w.recordOf(id) == nil {
		return nil // it is made when the hub has a report of it
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
		state, reason = wire.Waiting, v1alpha1.ReasonLogUnproven
	case x.Kind == store.WantHold:
		state, reason = wire.Held, v1alpha1.ReasonSuspended
	}
	if r.State != state || reason != "*" && r.Reason != reason && r.Reason != v1alpha1.ReasonContested {
		return fmt.Errorf("the report says %s/%s (%s), not %s/%s", r.State, r.Reason, r.Message, state, reason)
	}
	if o != nil && !o.foreign && state == wire.Applied && w.recordOf(id) == nil {
		return errors.New("the report is from before the store was lost, and the agent has yet to apply it")
	}
	if s := x.Object(); state == wire.Applied && (r.Digest != s.Digest || r.UID != s.UID || r.Orphan != s.Policy.Orphan) {
		return fmt.Errorf("the report is of another object: %+v", r)
	}
	if err := w.checkHealth(o, x, r); err != nil {
		return err
	}
	if o != nil && !o.foreign && x.Kind == store.WantPut && x.Leaf.Policy.ReturnStatus && health.HasStatus(id.Resource) {
		if now, reported := gjson.Get(o.status, "n").Raw, gjson.GetBytes(r.Status, "n").Raw; now != reported {
			return fmt.Errorf("the report's status says %q, not %q", reported, now)
		}
	}
	return nil
}

// checkHealth compares the reported health of a desired object with the object.
func (w *world) checkHealth(o *thing, x *store.Want, r wire.Report) error {
	if o == nil || o.foreign {
		if r.Health != "" && r.Completed == "" {
			return fmt.Errorf("it is not there, and reported %s", r.Health)
		}
		return nil
	}
	rec := w.recordOf(o.id)
	if rec == nil || rec.UID != o.uid || o.meta("labels", v1alpha1.LocationLabel) == "" {
		return nil // what is at the cluster is not what is reported, or no watch shows it
	}
	input := health.Object{APIVersion: kubeclient.Place{Resource: o.id.Resource, Version: "v1"}.GroupVersion(), Kind: o.kind, Generation: o.generation}
	if health.HasStatus(o.id.Resource) {
		input.Status = []byte(gjson.GetBytes(o.body(true), "status").Raw)
	}
	if is, message := health.Assess(input); r.Health != is || r.HealthNote != message && (x.Kind == store.WantPut && x.Leaf.Policy.ReturnStatus || is == wire.Healthy) {
		return fmt.Errorf("the report has it as %s (%s), and it is %s (%s)", r.Health, r.HealthNote, is, message)
	}
	return nil
}

func (w *world) expect(id key.Identity, o *thing, x *store.Want, r wire.Report) (wire.State, string, error) {
	s := x.Object()
	rest, v := w.enforced(s.Digest, s.Policy), fieldPath("data", "v")
	bad := w.sources[s.Digest][v] == `"bad"`
	another := o != nil && !o.foreign && o.meta("annotations", v1alpha1.SourceUIDAnnotation) != s.UID
	anew := another && decide.RunsOnce(id.Resource)
	if bad && o != nil && rest[v] == "" && !differs(o, rest) && !anew {
		// It is not applied, unless it takes a dry run to learn whether it can be released.
		bad = !slices.ContainsFunc(slices.Collect(maps.Keys(o.fields)), func(p string) bool { return strings.HasPrefix(p, "data/") && o.ownedByAny(p) })
	}
	in := w.cluster.objects[key.Identity{Resource: key.Namespaces, Name: id.Namespace}.String()]
	rec := w.recordOf(id)
	orphaned := another && (rec == nil && o.meta("annotations", v1alpha1.OnRemoveAnnotation) != "" || rec != nil && rec.Source.Policy.Orphan)
	switch {
	case !w.cluster.serves(id.Resource):
		return wire.Unsupported, "NoSuchResource", nil
	case r.Completed != "" && r.Digest == s.Digest && r.UID == s.UID && (o == nil || !o.foreign):
		if o != nil && !s.Policy.CreateOnly && !w.equals(o, s) {
			return "", "", errors.New("what has ended is not as it was")
		}
		return wire.Applied, "*", nil
	case r.Completed != "" && o == nil:
		return wire.Applied, v1alpha1.ReasonCompleted, nil
	case o != nil && o.foreign && !implied(o) && (!s.Policy.Adopt || o.controlled):
		return wire.InConflict, "Exists", nil
	case o != nil && s.Policy.CreateOnly && !o.foreign && o.meta("annotations", v1alpha1.SourceUIDAnnotation) == s.UID:
		return wire.Applied, v1alpha1.ReasonCreateOnly, nil
	case o != nil && o.foreign && !o.controlled && (s.Policy.Adopt || implied(o)) && s.Policy.CreateOnly: // whatever is desired, it may stay
		return "", "", errors.New("it is not adopted")
	case orphaned && anew:
		return wire.InConflict, v1alpha1.ReasonExists, nil
	case o == nil && in == nil && id.Namespace != "" && w.assigned(key.Identity{Resource: key.Namespaces, Name: id.Namespace}):
		return wire.Waiting, v1alpha1.ReasonWaitsForNamespace, nil
	case bad && (o == nil || anew || !w.equals(o, s)):
		return wire.Failed, "*", nil
	case o == nil && (id.Namespace == "" || in == nil || !in.terminating):
		return "", "", errors.New("it is missing")
	case o == nil:
		return "", "", errors.New("its namespace is being deleted")
	case differs(o, rest) && !o.foreign && (s.Policy.Recreate && len(w.inside(id)) > 0 || !s.Policy.Recreate && (!another || orphaned)):
		return wire.Failed, "*", nil
	case o.foreign:
		return "", "", errors.New("it is not adopted")
	case s.Policy.CreateOnly:
		return wire.Applied, v1alpha1.ReasonCreateOnly, nil
	case w.equals(o, s):
		return wire.Applied, "", nil
	case s.Policy.ReportDrift && o.meta("annotations", v1alpha1.SourceUIDAnnotation) == s.UID:
		return wire.Failed, "Drifted", nil
	}
	return "", "", fmt.Errorf("it is %v, not %v, and owned by %v", o.fields, rest, o.owners)
}

// assigned reports whether some space has a desired entry of an identity.
func (w *world) assigned(id key.Identity) bool {
	desired := w.contentOf()
	return slices.ContainsFunc(w.spaceKeys(id), func(k string) bool {
		x, ok := desired[k]
		return ok && x.Desired()
	})
}

// equals reports whether an object has the agent's ownership metadata and the desired fields, and
// no fields of an earlier desired state. Released fields may have any value, and do not belong to
// the agent.
func (w *world) equals(o *thing, s *store.Source) bool {
	fields, out := w.enforced(s.Digest, s.Policy), releasedBy(s.Policy)
	if o.meta("labels", v1alpha1.LocationLabel) == "" || !w.namesSource(o) {
		return false
	}
	for p, v := range fields {
		if o.fields[p] != v {
			return false
		}
	}
	for p := range o.fields {
		if _, ok := fields[p]; !ok && !out[p] && !isMark(p) && !o.ownedByAny(p) && p != fieldPath("data", "admitted") && !w.wasReleased(o.id, p) {
			return false
		}
	}
	for m, paths := range o.owners {
		for p := range paths {
			_, ok := fields[p]
			switch ours := strings.HasPrefix(m.manager, "orrery/"); {
			case ours && out[p] && s.Policy.ReportDrift: // an inspection changes nothing
			case ours && !ok && !isMark(p), m == releasedOwner && !out[p]:
				return false
			}
		}
	}
	return true
}

// wasReleased reports whether some source of an identity released a field: it stays when no source has it any more.
func (w *world) wasReleased(id key.Identity, field string) bool {
	for _, p := range w.allPuts {
		if w.placeOf(p.Key) == id && releasedBy(p.Policy)[field] {
			return true
		}
	}
	return false
}

// namesSource reports whether an object names its source.
func (w *world) namesSource(o *thing) bool {
	owner := key.Object{Space: key.Space(o.meta("labels", v1alpha1.SpaceLabel)), Identity: key.Identity{
		Resource: o.id.Resource, Namespace: o.meta("annotations", v1alpha1.SourceNamespaceAnnotation), Name: o.meta("annotations", v1alpha1.SourceNameAnnotation),
	}}
	return slices.Contains(w.spaceKeys(o.id), owner.Path())
}

// checkUnwanted checks an identity that no key desires, or for which no key has an object.
func (w *world) checkUnwanted(id key.Identity, o *thing, desired map[string]store.Want, reports map[string]wire.Report) error {
	for _, k := range w.spaceKeys(id) {
		x, ok := desired[k]
		if !ok || !x.Desired() {
			continue
		}
		state := map[store.WantKind]wire.State{store.WantHold: wire.Held, store.WantConflict: wire.InConflict}[x.Kind]
		if x.Deferred {
			state = wire.Waiting
		}
		if reports[k].State != state {
			return fmt.Errorf("the report of %s is %+v, not %s", k, reports[k], state)
		}
		return nil // the object at the cluster stays
	}
	if w.waits(o) || slices.ContainsFunc(w.inside(id), w.waits) {
		return nil
	}
	desiredOnce := slices.ContainsFunc(w.spaceKeys(id), func(k string) bool { _, ok := desired[k]; return ok })
	if desiredOnce && !w.hubReachable() && slices.ContainsFunc(append(w.inside(id), o), w.unknown) {
		return nil // that it is written from the hub's log, only the hub can prove
	}
	if w.broken() && slices.ContainsFunc(append(w.inside(id), o), w.unknown) {
		return nil // a log that is not proven says of nothing that it is not desired
	}
	if o != nil && !o.foreign {
		used := false
		for _, x := range w.inside(id) {
			used = used || w.blocks(x, id)
		}
		// It is not known whether an object exists for an entry that is held and was never put.
		perhaps := false
		for k, entry := range desired {
			x := w.placeOf(k)
			if !slices.Contains(worklist.Containers(x), id.String()) {
				continue
			}
			used = used || w.cluster.objects[x.String()] != nil
			perhaps = perhaps || entry.Object() == nil
		}
		state := wire.State("")
		for _, k := range w.spaceKeys(id) {
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
	for _, k := range w.spaceKeys(id) {
		r, ok := reports[k]
		if x, desiredOnce := desired[k]; desiredOnce { // it is Gone: the hub forgets the entry once it receives the report
			if !ok || r.State != wire.Removed || w.hubReachable() && !w.broken() {
				return fmt.Errorf("the report of %s, which is to be gone, is %+v (%v)", k, r, x)
			}
		} else if ok {
			return fmt.Errorf("there is still a report of %s: %+v", k, r)
		}
	}
	return nil
}

// unknown reports whether an object belongs to the agent, which has no record of it.
func (w *world) unknown(o *thing) bool { return o != nil && !o.foreign && w.recordOf(o.id) == nil }
