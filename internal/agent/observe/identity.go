package observe

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
)

// kubeSystem is the Namespace whose UID identifies a cluster, and defaultNamespace the one that does if the agent
// may not read kube-system. No user can delete either of them.
var (
	kubeSystem       = key.Identity{Resource: key.Namespaces, Name: metav1.NamespaceSystem}
	defaultNamespace = key.Identity{Resource: key.Namespaces, Name: metav1.NamespaceDefault}
)

// errUnidentified is the reason for which the agent changes nothing at a cluster that has no identity yet.
var errUnidentified = errors.New("the cluster has no Namespace kube-system yet, whose UID shows whether it is the cluster that the agent knows")

// errUnproven is returned for a cluster whose identity the agent may not read. It counts as the same cluster,
// and the agent tries again.
var errUnproven = errors.New("the agent may read no Namespace whose UID would show whether this is the cluster that it knows")

// Identity finds out whether the target is still the cluster that the store names. A cluster that was rebuilt at
// the same address is another one. The check is part of each probe of the target.
type Identity struct {
	engine *worklist.Worklist
	store  *store.Store
	target *kubeclient.Client
	log    *slog.Logger
	// warned is true once a missing right was logged.
	warned atomic.Bool
}

// NewIdentity returns the Identity of the cluster that the store names.
func NewIdentity(e *worklist.Worklist, s *store.Store, t *kubeclient.Client, log *slog.Logger) *Identity {
	return &Identity{engine: e, store: s, target: t, log: log}
}

// Confirm reads the identity of the target. If it is another cluster than before, Confirm discards all
// observations and the ends of Jobs and Pods, which then run again, before it returns. A cluster that has no
// identity yet, and is not known, counts as the same. So does one whose identity the agent may not read, for
// which Confirm returns errUnproven. After another error the agent must not act yet.
func (i *Identity) Confirm(ctx context.Context) error {
	known := i.store.Meta().Cluster
	m, err := i.target.Get(ctx, kubeclient.Namespaces, kubeSystem)
	switch {
	case apierrors.IsForbidden(err):
		return i.confirmDefault(ctx, err)
	case known.UID == "" && (kubeclient.MissingObject(err, kubeSystem) || kubeclient.MissingKind(err)):
		return nil
	case kubeclient.MissingObject(err, kubeSystem):
		return errUnidentified
	case err != nil:
		return err
	case m.UID != known.UID && known.UID != "":
		return i.replace(ctx, known.UID, store.Cluster{UID: m.UID})
	case m.UID != known.UID:
		return i.learn(ctx, known, m.UID)
	}
	if known.Others[defaultNamespace.Name] == "" {
		if other, err := i.target.Get(ctx, kubeclient.Namespaces, defaultNamespace); err == nil {
			i.record(ctx, withOther(known, defaultNamespace.Name, other.UID))
		}
	}
	return nil
}

// learn records the UID of kube-system of a cluster that was known by the Namespace default alone, or not at all.
func (i *Identity) learn(ctx context.Context, known store.Cluster, uid string) error {
	name := defaultNamespace.Name
	other, err := i.target.Get(ctx, kubeclient.Namespaces, defaultNamespace)
	switch previous := known.Others[name]; {
	case err != nil && !apierrors.IsForbidden(err) && !kubeclient.MissingObject(err, defaultNamespace):
		return err
	case err != nil: // nothing can prove more, and the UID of a former cluster must not count later
		known.Others = nil
	case previous != "" && previous != other.UID:
		return i.replace(ctx, previous, withOther(store.Cluster{UID: uid}, name, other.UID))
	default:
		known = withOther(known, name, other.UID)
	}
	known.UID = uid
	i.record(ctx, known)
	return nil
}

// confirmDefault confirms a cluster by the Namespace default. The namespace of the agent is none that could: a
// user can delete it and make it again, and Jobs would run again.
func (i *Identity) confirmDefault(ctx context.Context, forbidden error) error {
	known, name := i.store.Meta().Cluster, defaultNamespace.Name
	m, err := i.target.Get(ctx, kubeclient.Namespaces, defaultNamespace)
	switch previous := known.Others[name]; {
	case kubeclient.MissingObject(err, defaultNamespace) && previous != "":
		return errUnidentified
	case apierrors.IsForbidden(err) || kubeclient.MissingObject(err, defaultNamespace):
	case err != nil:
		return err
	case previous == m.UID:
		return nil
	case previous != "":
		return i.replace(ctx, previous, withOther(store.Cluster{}, name, m.UID))
	case known.UID == "": // nothing is known that would have to be proven
		i.record(ctx, withOther(known, name, m.UID))
		return nil
	}
	if err := readStore(ctx, i.target); err != nil { // the authorizer needs no etcd to forbid
		return err
	}
	if i.warned.CompareAndSwap(false, true) {
		i.log.Warn("the agent may not read the Namespaces kube-system and default, so it can't prove that the cluster is the same one; it asks again",
			"error", forbidden)
	}
	return errUnproven
}

// withOther adds the UID of a Namespace to the identity of a cluster.
func withOther(c store.Cluster, name, uid string) store.Cluster {
	others := maps.Clone(c.Others)
	if others == nil {
		others = map[string]string{}
	}
	others[name] = uid
	c.Others = others
	return c
}

// record stores the identity of the same cluster.
func (i *Identity) record(ctx context.Context, c store.Cluster) {
	if err := i.store.Write(ctx, func(t *store.Tx) error { t.Target.SetCluster(c); return nil }); err != nil && ctx.Err() == nil {
		i.log.Warn("which cluster it is can't be stored; the next start finds out", "error", err)
	}
}

// replace stores another cluster in place of the previous one.
func (i *Identity) replace(ctx context.Context, previous string, now store.Cluster) error {
	now.Replaced = time.Now().UTC().Truncate(time.Second)
	again := 0
	if err := i.store.Write(ctx, func(t *store.Tx) (err error) {
		again, err = t.ReplaceCluster(now)
		return err
	}); err != nil {
		return err
	}
	worklist.Rewind(i.engine, i.engine.Self(), nil)
	i.log.Error("the cluster is another one than before: all that is desired is applied to it, and Jobs and Pods that ran to their end run again; "+
		"if it should be the former one, check the address in the agent's kubeconfig", "was", previous, "is", now.UID+now.Others[defaultNamespace.Name], "run again", again)
	return nil
}

// readStore checks that a target reads from its store, by the first page of its Leases. An agent has the right
// to list Leases from its manifest. Without that right, readStore checks nothing.
func readStore(ctx context.Context, target *kubeclient.Client) error {
	_, err := target.Pages(ctx, kubeclient.Leases, "", "", false, func(*kubeclient.Page) (more bool, err error) { return false, nil })
	if apierrors.IsForbidden(err) || kubeclient.MissingKind(err) {
		return nil
	}
	return err
}
