package fencing

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

const (
	// sharesLabel is on each Lease of a shard, with the owner in the ownership metadata of the location.
	sharesLabel = "orrery.dev/shares"
	// shardAnnotation is the shard, as K/N, for which a Lease was last taken.
	shardAnnotation = "orrery.dev/shard"
	// knownAnnotation is on a Lease whose holder has acted. By then no agent of the whole location acts, and
	// none will while there is such a Lease.
	knownAnnotation = "orrery.dev/known"
	knownValue      = "true"
	// storeAnnotation names the store of the present or last holder of a Lease.
	storeAnnotation = "orrery.dev/store"
	// movesAnnotation is the number of changes of the records in that store.
	movesAnnotation = "orrery.dev/moves"
)

func labelsOf(self ownership.Owner) string { return sharesLabel + "=" + string(self) }

// nameOfLease returns the name of the Lease of a shard. It is the same for all numbers of shards, so that two
// agents with one number never hold it both.
func nameOfLease(self ownership.Owner, shard key.Shard) string {
	return fmt.Sprintf("orrery-%s-%d", self, shard.Number())
}

// isLeaseOf reports whether an object is a Lease by which agents share a location. Any user may create others
// with the same labels.
func isLeaseOf(self ownership.Owner, home, namespace, name string) bool {
	text, ours := strings.CutPrefix(name, fmt.Sprintf("orrery-%s-", self))
	number, err := strconv.Atoi(text)
	return ours && namespace == home && err == nil && number >= 1 && number <= key.MaxShards && strconv.Itoa(number) == text
}

func pathOf(l *coordinationv1.Lease) string { return l.Namespace + "/" + l.Name }

// shardOf returns the shard for which a Lease was taken. It returns the zero Shard, which differs from each
// number of shards, if the annotation is malformed.
func shardOf(l *coordinationv1.Lease) key.Shard {
	shard, err := key.ParseShard(l.Annotations[shardAnnotation])
	if err != nil {
		return key.Shard{}
	}
	return shard
}

// holderOf returns the holder of a Lease; empty: it was released.
func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// lastsOf returns the duration of a Lease, as its holder has set it.
func lastsOf(l *coordinationv1.Lease) time.Duration {
	if l.Spec.LeaseDurationSeconds == nil {
		return 0
	}
	return time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
}

func isKnown(l *coordinationv1.Lease) bool { return l.Annotations[knownAnnotation] == knownValue }

// next returns the agent's Lease to write, with a holder; an empty one releases it. from is the present Lease,
// nil if there is none.
func (k *keeper) next(from *coordinationv1.Lease, holder string) *coordinationv1.Lease {
	out := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: k.config.Namespace, Name: k.name}}
	if from != nil {
		out = from.DeepCopy()
	}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Labels[sharesLabel], out.Annotations[shardAnnotation] = string(k.self), k.config.Shard.String()
	out.Annotations[storeAnnotation] = k.config.Store
	if k.config.Moves != nil {
		out.Annotations[movesAnnotation] = strconv.FormatUint(k.config.Moves(), 10)
	}
	if k.acts {
		out.Annotations[knownAnnotation] = knownValue
	}
	stamp := metav1.NewMicroTime(time.Now()) // for users; no agent reads it
	if holderOf(out) != holder {
		out.Spec.AcquireTime = &stamp
		changes := int32(1)
		if n := out.Spec.LeaseTransitions; n != nil {
			changes += *n
		}
		out.Spec.LeaseTransitions = &changes
	}
	seconds := int32(k.lasts() / time.Second)
	out.Spec.HolderIdentity, out.Spec.RenewTime, out.Spec.LeaseDurationSeconds = &holder, &stamp, &seconds
	return out
}

// Copy is a state of a store: its ID, and the number of changes of its records.
type Copy struct {
	ID    string
	Moves uint64
}

// precedes reports whether an agent has acted after the state c, with that store or another, according to the
// state that a Lease names. former is the state in the Lease before c's store was first used: an older state of
// that store proves nothing, since it appears after a restore of the cluster. A Lease without a state proves
// nothing either.
func (c Copy) precedes(named, former Copy) bool {
	switch named.ID {
	case "":
		return false
	case c.ID:
		return named.Moves > c.Moves
	case former.ID:
		return named.Moves > former.Moves
	}
	return true
}

// copyOf returns the state of a store that a Lease names.
func copyOf(annotations map[string]string) Copy {
	moves, err := strconv.ParseUint(annotations[movesAnnotation], 10, 64)
	if err != nil {
		moves = 0 // any user may have changed it
	}
	return Copy{ID: annotations[storeAnnotation], Moves: moves}
}
