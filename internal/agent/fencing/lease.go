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
	// sharesLabel is on each Lease of a shard, with the mark of the location.
	sharesLabel = "orrery.dev/shares"
	// shardAnnotation is the shard as whose a Lease was last taken, K/N.
	shardAnnotation = "orrery.dev/shard"
	// knownAnnotation is on a Lease whose holder has acted: by then no agent of the whole
	// location acts, nor will as long as there is such a Lease.
	knownAnnotation = "orrery.dev/known"
	knownValue      = "true"
	// storeAnnotation names the store of who holds a Lease, or held it last.
	storeAnnotation = "orrery.dev/store"
	// movesAnnotation is how often that store has changed what it records.
	movesAnnotation = "orrery.dev/moves"
)

func labelsOf(self ownership.Owner) string { return sharesLabel + "=" + string(self) }

// nameOfLease is what the Lease of a shard is called. It is the same for all numbers of
// shards, so that two agents of one number never hold it both.
func nameOfLease(self ownership.Owner, shard key.Shard) string {
	return fmt.Sprintf("orrery-%s-%d", self, shard.Number())
}

// isLeaseOf says whether an object is a Lease by which agents of a location share it: anybody
// may make others, of any labels.
func isLeaseOf(self ownership.Owner, home, namespace, name string) bool {
	text, ours := strings.CutPrefix(name, fmt.Sprintf("orrery-%s-", self))
	number, err := strconv.Atoi(text)
	return ours && namespace == home && err == nil && number >= 1 && number <= key.MaxShards && strconv.Itoa(number) == text
}

func pathOf(l *coordinationv1.Lease) string { return l.Namespace + "/" + l.Name }

// shardOf is the shard as whose a Lease was taken. One that nobody can read is of none, and so
// of another number of shards than any.
func shardOf(l *coordinationv1.Lease) key.Shard {
	shard, err := key.ParseShard(l.Annotations[shardAnnotation])
	if err != nil {
		return key.Shard{}
	}
	return shard
}

// holderOf is who holds a Lease; empty: it was let go.
func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// lastsOf is for how long a Lease counts as held that is not renewed, by who holds it.
func lastsOf(l *coordinationv1.Lease) time.Duration {
	if l.Spec.LeaseDurationSeconds == nil {
		return 0
	}
	return time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
}

func isKnown(l *coordinationv1.Lease) bool { return l.Annotations[knownAnnotation] == knownValue }

// next is what is to be written of the agent's Lease, from what stands there (nil: nothing).
// holder is who is to hold it; empty: it is let go.
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
	stamp := metav1.NewMicroTime(time.Now()) // for people; nobody goes by it
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

// Copy is a state of a store: which one, and how often it has changed what it records.
type Copy struct {
	ID    string
	Moves uint64
}

// precedes reports whether an agent has acted since the state c, with that store or another, as shown by the
// state that a Lease names. former is what the Lease named before c's store was first used: an older state of
// that one, as after a restore of the cluster, shows nothing. Nor does a Lease that names none.
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

// copyOf is the state of a store that a Lease names.
func copyOf(annotations map[string]string) Copy {
	moves, err := strconv.ParseUint(annotations[movesAnnotation], 10, 64)
	if err != nil {
		moves = 0 // anybody may have changed it
	}
	return Copy{ID: annotations[storeAnnotation], Moves: moves}
}
