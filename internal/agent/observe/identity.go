package observe

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
)

// kubeSystem is the Namespace whose UID identifies a cluster.
var kubeSystem = key.Identity{Resource: key.Namespaces, Name: "kube-system"}

// errUnidentified is why nothing is changed at a cluster that does not show yet which one it is.
var errUnidentified = errors.New("the cluster has no Namespace kube-system yet, whose UID shows whether it is the cluster that the agent knows")

// Identity finds out whether the target is still the cluster that the store is of. A cluster that was
// rebuilt at the same address is another one. It asks when the target is probed: at the start, after it did not answer,
// when its revisions go back, and when nothing shows that its etcd answers.
type Identity struct {
	engine *worklist.Worklist
	store  *store.Store
	target *kubeclient.Client
	log    *slog.Logger
	// warned is true once a missing right was logged.
	warned atomic.Bool
}

// NewIdentity makes an Identity of the cluster that the store names.
func NewIdentity(e *worklist.Worklist, s *store.Store, t *kubeclient.Client, log *slog.Logger) *Identity {
	return &Identity{engine: e, store: s, target: t, log: log}
}

// Confirm reads which cluster the target is. If it is another one than before, what was seen is forgotten, and
// what has run to its end runs again, before Confirm returns. A cluster that has no identity, or does not
// let the agent read it, counts as the same. An error means that the agent must not act yet.
func (i *Identity) Confirm(ctx context.Context) error {
	m, err := i.target.Get(ctx, kubeclient.Namespaces, kubeSystem)
	known := i.store.Meta().Cluster.UID
	switch {
	case apierrors.IsForbidden(err): // by the authorizer, which needs no etcd
		if i.warned.CompareAndSwap(false, true) {
			i.log.Warn("the agent may not read the Namespace kube-system, so it does not notice if the cluster is rebuilt at the same address", "error", err)
		}
		return i.target.ReadStore(ctx)
	case known == "" && (kubeclient.MissingObject(err, kubeSystem) || kubeclient.MissingKind(err)):
		return nil
	case kubeclient.MissingObject(err, kubeSystem):
		return errUnidentified
	case err != nil:
		return err
	case m.UID == known:
		return nil
	case known == "":
		if err := i.store.Write(ctx, func(t *store.Tx) error { store.NameCluster(t, store.Cluster{UID: m.UID}); return nil }); err != nil && ctx.Err() == nil {
			i.log.Warn("which cluster it is can't be stored; the next start finds out", "error", err)
		}
		return nil
	}
	now, again := store.Cluster{UID: m.UID, Replaced: time.Now().UTC().Truncate(time.Second)}, 0
	if err := i.store.Write(ctx, func(t *store.Tx) (err error) {
		again, err = store.ReplaceCluster(t, now)
		return err
	}); err != nil {
		return err
	}
	worklist.Rewind(i.engine, i.engine.Self(), nil)
	i.log.Error("the cluster is another one than before: all that is desired is applied to it, and Jobs and Pods that ran to their end run again; "+
		"if it should be the former one, check the address in the agent's kubeconfig", "was", known, "is", m.UID, "run again", again)
	return nil
}
