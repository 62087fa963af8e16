package fencing

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// A Lease is renewed each duration/renewals. An agent that could not renew it acts for at most
	// actsFor/renewals of a duration.
	renewals, actsFor = 3, 2
	// evictedFor is the number of durations for which an agent creates no Lease after its own was deleted: a
	// user that deletes it wants another agent to get it.
	evictedFor = 3
)

// keeper keeps the Lease of a shard. It is for one goroutine.
type keeper struct {
	*Fence
	self         ownership.Owner
	labels, name string

	// begun is the time at which the Lease was taken. settling is the time after that before which the agent may
	// not act. acts is true if it has acted since.
	begun    moment
	settling time.Duration
	acts     bool
	// known is true if, since the Lease was taken, there was a Lease whose holder has acted.
	known bool
	// rest is the time before which no Lease is created.
	rest moment
	// seen has, by path, the observed states of Leases that other agents hold.
	seen map[string]sighting
	// longest is the longest duration of all Leases.
	longest time.Duration
}

// sighting is the observed state of another agent's Lease.
type sighting struct {
	// version is its last resource version, since the time of the first observation of this version, and last
	// the time of the last observation.
	version     string
	since, last moment
}

// keep takes the agent's Lease and renews it, until ctx ends. It lets the agent act while it holds the Lease and
// no other Lease forbids it.
func (t *Fence) keep(ctx context.Context, self ownership.Owner) {
	k := newKeeper(t, self)
	k.hold(nil) // a Lease of another owner expires
	for ctx.Err() == nil {
		retry.Pause(ctx, k.round(ctx))
	}
}

func newKeeper(t *Fence, self ownership.Owner) *keeper {
	return &keeper{Fence: t, self: self, labels: labelsOf(self), name: nameOfLease(self, t.config.Shard), seen: map[string]sighting{}, longest: t.config.Duration}
}

// beat is the interval at which the Lease is renewed, and the timeout of requests about it.
func (k *keeper) beat() time.Duration { return k.config.Duration / renewals }

// round makes the next requests, and returns the wait before the next round.
func (k *keeper) round(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, k.beat())
	defer cancel()
	if k.lease != nil {
		return k.renew(ctx)
	}
	all, err := k.list(ctx)
	if err != nil {
		return k.unclear(err)
	}
	return k.take(ctx, all)
}

// renew renews the Lease. It lets the agent act as soon as other Leases allow it.
func (k *keeper) renew(ctx context.Context) time.Duration {
	start, known := now(), isKnown(k.lease)
	renewed, err := k.config.Leases.UpdateLease(ctx, k.next(k.lease, k.config.Holder))
	switch {
	case err == nil:
		k.hold(renewed)
	case apierrors.IsNotFound(err):
		return k.evicted()
	case apierrors.IsConflict(err): // also if it was deleted, since the request has its UID
		return k.recover(ctx)
	default:
		return k.unclear(err)
	}
	until := start.add(k.config.Duration * actsFor / renewals)
	if k.acts {
		k.allow(until)
		if !known && !isKnown(renewed) {
			return 0 // the next round writes that the agent acts
		}
		return k.beat()
	}
	all, err := k.list(ctx)
	if err != nil {
		return k.unclear(err)
	}
	why, waits := k.against(ctx, all)
	switch {
	case why == "":
		k.acts = true
		k.allow(until)
		return 0
	case waits:
		k.deny(why)
		return k.beat()
	}
	// Another agent has begun at the same time with another number of shards. Neither acts. The one that takes
	// its Lease again first wins.
	k.deny(why)
	k.letGo(ctx)
	return k.beat() + rand.N(k.config.Duration)
}

// hold records the Lease that is held.
func (k *keeper) hold(l *coordinationv1.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lease = l
}

// recover finds out whether the agent still holds a Lease that another client has written.
func (k *keeper) recover(ctx context.Context) time.Duration {
	all, err := k.list(ctx)
	if err != nil {
		return k.unclear(err)
	}
	for i := range all {
		switch l := &all[i]; {
		case pathOf(l) != pathOf(k.lease):
		case l.UID == k.lease.UID && holderOf(l) == k.config.Holder:
			k.hold(l)
			return 0
		default:
			return k.lost("another has taken its Lease", 0)
		}
	}
	return k.evicted()
}

// evicted handles the deletion of the Lease: the user that deleted it wants another agent to get it.
func (k *keeper) evicted() time.Duration {
	return k.lost("its Lease was deleted", evictedFor*k.longest)
}

// lost stops the agent from acting, and from creating a Lease for a time.
func (k *keeper) lost(why string, rest time.Duration) time.Duration {
	k.hold(nil)
	k.acts = false
	k.deny(why)
	k.rest = now().add(rest)
	return k.beat()
}

// unclear handles a failed request about Leases. An agent that acts continues until the end of its last renewal.
func (k *keeper) unclear(err error) time.Duration {
	k.mu.Lock()
	if k.held == nil {
		k.stop("the Leases of the location can't be seen or written: " + wire.Brief(err.Error()))
	}
	k.mu.Unlock()
	const fraction = 4
	return max(k.beat()/fraction, min(k.beat(), kubeclient.RetryAfter(err)))
}

// list reads all Leases of the location, and records their states.
func (k *keeper) list(ctx context.Context) ([]coordinationv1.Lease, error) {
	all, err := k.config.Leases.ListLeases(ctx, k.labels)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(l coordinationv1.Lease) bool {
		return !isLeaseOf(k.self, k.config.Namespace, l.Namespace, l.Name)
	})
	seenAt := now()
	for i := range all {
		l := &all[i]
		k.longest = max(k.longest, lastsOf(l))
		if holderOf(l) == "" || holderOf(l) == k.config.Holder {
			delete(k.seen, pathOf(l))
			continue
		}
		s, known := k.seen[pathOf(l)]
		if known && s.version != l.ResourceVersion && l.Name == k.name {
			k.config.New, k.config.FromWhole = false, false // another agent acts, so the state of this agent becomes outdated
		}
		if s.version != l.ResourceVersion {
			s.version, s.since = l.ResourceVersion, seenAt
		}
		s.last = seenAt
		k.seen[pathOf(l)] = s
	}
	return all, nil
}

// take takes the agent's own Lease if no other agent holds it and no other Lease forbids it.
func (k *keeper) take(ctx context.Context, all []coordinationv1.Lease) time.Duration {
	if now().awaits(k.rest) {
		return k.beat()
	}
	var mine *coordinationv1.Lease
	for i := range all {
		l := &all[i]
		switch {
		case l.Name == k.name:
			mine = l
		case k.blocks(l):
			k.deny(k.blockedBy(l))
			return k.beat()
		case holderOf(l) != "" && lastsOf(l) != k.lasts():
			k.deny(fmt.Sprintf("the Lease %s lasts %s, and this agent's %s: --lease-duration has to be the same for all", pathOf(l), lastsOf(l), k.lasts()))
			return k.beat()
		}
	}
	settling := k.longest // its last holder may not know yet that it was deleted
	if mine != nil {
		same := shardOf(mine) == k.config.Shard
		switch holder := holderOf(mine); {
		case holder == k.config.Holder, holder == "" && !same:
		case holder == "":
			settling = 0
		case !same:
			k.deny(k.blockedBy(mine))
			return k.beat()
		case now().awaits(k.seen[pathOf(mine)].since.add(max(k.longest, lastsOf(mine)))):
			k.deny(fmt.Sprintf("the Lease %s is held by %s; if that has ended, it is free in %s at most", pathOf(mine), holder, k.longest))
			return k.beat()
		default:
			settling = 0
		}
	}
	if k.config.Outdated != nil && k.outdated(mine) {
		k.deny("another agent may have had the shard since this one had it")
		k.config.Outdated()
		return k.beat()
	}
	write := k.config.Leases.UpdateLease
	if mine == nil {
		write = k.config.Leases.CreateLease
	}
	begun := now()
	taken, err := write(ctx, k.next(mine, k.config.Holder))
	if err != nil {
		return k.unclear(err)
	}
	k.hold(taken)
	k.config.New, k.config.FromWhole = false, false
	k.begun, k.settling, k.acts, k.known = begun, settling, false, false
	return 0
}

// outdated reports whether, by the Lease of its shard, another agent may have acted since with the records of
// this one. mine is nil if there is no Lease.
func (k *keeper) outdated(mine *coordinationv1.Lease) bool {
	last := ""
	if mine != nil {
		last = mine.Annotations[storeAnnotation]
	}
	switch {
	case last != "" && last == k.config.Store: // an older copy of the store has a lower number
		return k.config.Moves != nil && copyOf(mine.Annotations).Moves > k.config.Moves()
	case k.config.New:
		return false
	}
	return last != "" || !k.config.FromWhole
}

// blocks reports whether the Lease of another agent forbids this one to act: it is held, with another number of
// shards.
func (k *keeper) blocks(l *coordinationv1.Lease) bool {
	return holderOf(l) != "" && shardOf(l).Count != k.config.Shard.Count
}

// lasts returns the duration of the agent's own Lease in whole seconds, as the Lease has it.
func (k *keeper) lasts() time.Duration {
	return (k.config.Duration + time.Second - 1).Truncate(time.Second)
}

// blockedBy returns the reason for which a Lease forbids the agent to act, with the next step of the operator.
func (k *keeper) blockedBy(l *coordinationv1.Lease) string {
	shard := l.Annotations[shardAnnotation]
	if shardOf(l).Whole() {
		shard = "of an unknown form"
	}
	return fmt.Sprintf("the Lease %s is held by %s for shard %s, and this agent is for %s; it goes on when that one has let go. "+
		"If that one has ended for good, delete the Lease", pathOf(l), holderOf(l), shard, k.config.Shard)
}

// against returns the reason for which the agent may not act although it holds its Lease; empty: it may. waits
// is true if the reason ends without an operator.
func (k *keeper) against(ctx context.Context, all []coordinationv1.Lease) (why string, waits bool) {
	there := map[string]bool{}
	for i := range all {
		l := &all[i]
		there[pathOf(l)] = true
		k.known = k.known || isKnown(l)
		if l.Name == k.name {
			continue
		}
		if k.blocks(l) {
			return k.blockedBy(l), false
		}
		if l.Annotations[shardAnnotation] != "" && shardOf(l).Count != k.config.Shard.Count {
			// An agent that takes this Lease again for another number of shards must wait first, and must not
			// use the records of the last holder: other agents have its spaces from now on.
			former := l.DeepCopy()
			delete(former.Annotations, shardAnnotation)
			delete(former.Annotations, storeAnnotation)
			if _, err := k.config.Leases.UpdateLease(ctx, former); err != nil {
				return "the Lease " + pathOf(l) + " of former shards can't be written: " + wire.Brief(err.Error()), true
			}
		}
	}
	current := now()
	for path, s := range k.seen {
		if there[path] {
			continue
		}
		if current.awaits(s.last.add(k.longest)) {
			return "the Lease " + path + " was deleted, and its holder may not know it yet", true
		}
		delete(k.seen, path)
	}
	if current.awaits(k.begun.add(k.settling)) {
		return "the previous holder of its Lease may not know yet that it is taken", true
	}
	if !k.known && current.awaits(k.begun.add(noticeTimes*k.longest)) {
		return "these are the location's first shards: an agent of the whole location must notice this before they act", true
	}
	return "", true
}

// letGo releases the Lease. No action that depends on it may be running.
func (k *keeper) letGo(ctx context.Context) {
	k.acts = false
	if _, err := k.config.Leases.UpdateLease(ctx, k.next(k.lease, "")); err != nil {
		k.config.Log.Info("the Lease of the shard could not be released; it expires", "error", err)
	}
	k.hold(nil)
}

// Release releases the Lease, after Run has returned and no action that depends on it is running.
func (t *Fence) Release(ctx context.Context) {
	if t.lease == nil {
		return
	}
	k := &keeper{Fence: t, self: ownership.Owner(t.lease.Labels[sharesLabel]), name: t.lease.Name}
	k.letGo(ctx)
}
