package mapper

import (
	"time"

	"orrery.dev/orrery/internal/key"
)

// What leaves at once leaves in order: controllers are there while their custom
// resources go, and have their rights and what they read until their Pods have
// ended. All of it is best effort: whatever holds up others does so for a bounded
// time, and nothing is remembered but what is to leave.
const (
	// These are how long something that is being removed holds up what leaves after
	// it: as long as API servers, controllers and Pods take to end as they want to.
	hooksPatience  = 15 * time.Second
	customPatience = time.Minute
	podsPatience   = 5 * time.Minute
	// rolesPatience is the same for what aggregates ClusterRoles, and rolesCalm how
	// long that stays after the last of them: Kubernetes' controller makes it again
	// if it has yet to write what is left of it.
	rolesPatience = 15 * time.Second
	rolesCalm     = time.Second
	// orderRetry is how often what waits looks again without being told.
	orderRetry = 30 * time.Second
	// tellAfter is how long a wait is that is worth a report.
	tellAfter = time.Second
)

// patienceOf is how long what leaves at a rank holds up others.
func patienceOf(r rank) time.Duration {
	switch r {
	case rankHooks:
		return hooksPatience
	case rankCustom:
		return customPatience
	case rankWorkloads:
		return podsPatience
	default:
		return rolesPatience
	}
}

// scope is a set of things that leave and hold up others: those of a rank, of one
// space, in one namespace, cluster-scoped (empty), or anywhere.
type scope struct {
	space key.Space
	rank  rank
	in    string
}

const (
	anywhere = "*"
	// roles are the ClusterRoles, which hold up those that aggregate them.
	roles = "*clusterroles"
)

// clusterRoles is the resource of ClusterRoles.
var clusterRoles = key.Resource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}

// order are the ranks that hold up others, as they leave.
var order = [...]rank{rankHooks, rankCustom, rankWorkloads}

// openTime is the time in which something may be changed at the target. What waits for
// others does so by it: while nothing may go, nobody has had his time to.
type openTime struct {
	since time.Time     // when it was opened; zero: it is closed
	sum   time.Duration // that it was open before
}

func newOpenTime(now time.Time) openTime { return openTime{since: now} }

// set opens or closes it.
func (o *openTime) set(open bool, now time.Time) {
	if open == !o.since.IsZero() {
		return
	}
	o.sum, o.since = o.at(now), time.Time{}
	if open {
		o.since = now
	}
}

// at is how long it was open until now.
func (o *openTime) at(now time.Time) time.Duration {
	if o.since.IsZero() {
		return o.sum
	}
	return o.sum + max(0, now.Sub(o.since))
}

// never is a moment of open time that has not come.
const never time.Duration = -1

// leave is what is known of an item on its way out. Its moments are of open time.
type leave struct {
	space key.Space
	// scopes are those in which it holds up others; none: it does not any more.
	scopes []scope
	// began is when its removal was first tried; never: it waits for others.
	began time.Duration
	// held is since when it waits for others, awaits for whom, named for one of them,
	// calm since when nothing that it aggregates was left; never: it does not.
	held   time.Duration
	awaits scope
	named  *item
	calm   time.Duration
}

// leaves are the items on their way out. It is guarded by the engine's lock.
type leaves struct {
	// there hold up others, waiting are held up.
	there, waiting map[scope]map[*item]struct{}
	// push gives an item a turn.
	push func(*item)
}

func newLeaves(push func(*item)) *leaves {
	return &leaves{there: map[scope]map[*item]struct{}{}, waiting: map[scope]map[*item]struct{}{}, push: push}
}

// leaving takes note that an item is on its way out, which a space had.
func (all *leaves) leaving(it *item, s key.Space) {
	if it.leave != nil {
		return
	}
	it.leave = &leave{space: s, began: never, held: never, calm: never}
	id, rank := parseIdentity(it.id), it.kind.rank
	switch {
	case id.Resource == clusterRoles:
		it.leave.scopes = []scope{{s, rank, roles}}
	case rank >= rankWorkloads:
		it.leave.scopes = []scope{{s, rank, id.Namespace}, {s, rank, anywhere}}
	}
	for _, s := range it.leave.scopes {
		if all.there[s] == nil {
			all.there[s] = map[*item]struct{}{}
		}
		all.there[s][it] = struct{}{}
	}
}

// stays takes note that an item is not on its way out: it is gone, wanted, or
// does not go for now.
func (all *leaves) stays(it *item) {
	if it.leave == nil {
		return
	}
	all.passes(it)
	all.proceeds(it)
	it.leave = nil
}

// passes takes note that an item holds up nobody any more.
func (all *leaves) passes(it *item) {
	for _, s := range it.leave.scopes {
		delete(all.there[s], it)
		if len(all.there[s]) > 0 {
			continue
		}
		delete(all.there, s)
		for w := range all.waiting[s] {
			all.push(w)
		}
		delete(all.waiting, s)
	}
	it.leave.scopes = nil
}

// proceeds takes note that an item does not wait any more.
func (all *leaves) proceeds(it *item) {
	l := it.leave
	if waiting := all.waiting[l.awaits]; waiting != nil {
		if delete(waiting, it); len(waiting) == 0 {
			delete(all.waiting, l.awaits)
		}
	}
	l.held, l.awaits, l.named = never, scope{}, nil
}

// left takes an item back that a worker tried to remove, and returns when to look
// at it again. now is of open time.
func (all *leaves) left(it *item, r result, now time.Duration) time.Duration {
	if !r.leaving {
		all.stays(it)
		return r.retry
	}
	all.leaving(it, r.space)
	l := it.leave
	if r.held {
		return r.retry
	}
	all.proceeds(it)
	if l.began == never {
		l.began = now
	}
	rest := patienceOf(it.kind.rank) - (now - l.began)
	switch {
	case len(l.scopes) == 0:
		return r.retry
	case rest <= 0:
		all.passes(it)
		return r.retry
	case r.retry == 0:
		return rest
	}
	return min(r.retry, rest)
}

// ahead is what an item that is to leave waits for.
type ahead struct {
	id   string // one of those that are to go before
	rank rank
	// held is how long it has waited, rest how long it waits yet at most.
	held, rest time.Duration
}

// ahead finds what is to leave before an item; false: the item may go. The item
// has a turn when that is gone.
func (e *engine) ahead(id string, aggregates bool) (ahead, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	it := e.items[id]
	if it == nil || it.leave == nil {
		return ahead{}, false
	}
	return e.leaves.ahead(it, aggregates, e.open.at(time.Now()))
}

// ahead finds what is to leave before an item. now is of open time.
func (all *leaves) ahead(it *item, aggregates bool, now time.Duration) (ahead, bool) {
	l, most := it.leave, hooksPatience+customPatience+podsPatience
	if aggregates {
		most = rolesPatience
		if l.scopes != nil {
			all.passes(it) // it holds up what aggregates other roles no more than those do it
			all.proceeds(it)
		}
	}
	held := time.Duration(0)
	if l.held != never {
		held = now - l.held
	}
	for s := range it.after(aggregates) {
		there := all.there[s]
		if len(there) == 0 || held >= most {
			continue
		}
		if _, still := there[l.named]; !still || l.awaits != s {
			all.await(it, s, now)
		}
		return ahead{id: l.named.id, rank: s.rank, held: held, rest: most - held}, true
	}
	if !aggregates {
		return ahead{}, false
	}
	if l.calm == never {
		l.calm = now
	}
	if rest := rolesCalm - (now - l.calm); rest > 0 {
		return ahead{rank: rankConfig, rest: rest}, true
	}
	return ahead{}, false
}

// await has an item wait for what leaves in a scope.
func (all *leaves) await(it *item, s scope, now time.Duration) {
	since := it.leave.held
	all.proceeds(it)
	l := it.leave
	l.held, l.awaits = since, s
	if since == never {
		l.held = now
	}
	for l.named = range all.there[s] {
		break
	}
	if all.waiting[s] == nil {
		all.waiting[s] = map[*item]struct{}{}
	}
	all.waiting[s][it] = struct{}{}
}

// after are the scopes that an item leaves after. What lives in a namespace waits
// for what leaves there, and for what is cluster-scoped; but controllers work,
// and have rights, beyond their own.
func (it *item) after(aggregates bool) func(yield func(scope) bool) {
	id, mine, space := parseIdentity(it.id), it.kind.rank, it.leave.space
	wide := id.Namespace == "" || mine >= rankWorkloads || id.Group == clusterRoles.Group
	return func(yield func(scope) bool) {
		if aggregates {
			yield(scope{space, mine, roles})
			return
		}
		for _, r := range order {
			switch {
			case r <= mine, mine == rankNamespaces: // a Namespace goes when nothing of ours is in it
				return
			case wide:
				if !yield(scope{space, r, anywhere}) {
					return
				}
			case !yield(scope{space, r, id.Namespace}) || !yield(scope{space, r, ""}):
				return
			}
		}
	}
}
