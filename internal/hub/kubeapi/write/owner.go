package write

import (
	"context"
	"fmt"
	"strings"
	"unsafe"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/hub/engine/quota"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kubeapi/textual"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// owner is an object that must exist, and not be being deleted, for another object to be
// created: its space, its namespace, or the CRD or APIBinding by which the space has its
// kind. When an owner is deleted, its objects go first, so none may be created meanwhile.
type owner struct {
	object key.Object
	// missing and ending make the errors for the client.
	missing, ending func() error
}

// owners of an object of a kind in a namespace (empty if cluster-scoped).
func (s *Server) owners(space key.Space, kind *kinds.Kind, namespace, name string) []owner {
	all := make([]owner, 0, 3)
	own := func(space key.Space, r key.Resource, by string, ending func() error) {
		all = append(all, owner{
			object:  key.Object{Space: space, Identity: key.Identity{Resource: r, Name: by}},
			missing: func() error { return apierrors.NewNotFound(groupResource(r), by) },
			ending:  ending,
		})
	}
	if space != key.Root {
		own(key.Root, key.Spaces, string(space), func() error { return terminating(kind, name, "space", string(space)) })
	}
	if kind.Custom != nil && kind.GVK.Group != key.Spaces.Group {
		by := s.definer(space, kind)
		own(space, by.Resource, by.Name, func() error {
			what := "custom resource definition"
			if by.Resource == key.APIBindings {
				what = "API binding"
			}
			return apierrors.NewForbidden(kind.GVR.GroupResource(), name, fmt.Errorf("create not allowed while %s is terminating", what))
		})
	}
	if kind.Namespaced {
		own(space, key.Namespaces, namespace, func() error {
			err := terminating(kind, name, "namespace", namespace)
			err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
				Type:    corev1.NamespaceTerminatingCause,
				Message: fmt.Sprintf("namespace %s is being terminated", namespace),
				Field:   "metadata.namespace",
			})
			return err
		})
	}
	return all
}

// definer is what gives a space a kind that is not built in: a CRD or an APIBinding.
func (s *Server) definer(space key.Space, kind *kinds.Kind) key.Identity {
	// An error concerns a CRD; what it defines is not found then.
	catalog, _ := s.config.Kinds.Catalog(space, s.config.Table.Snapshot())
	if by := catalog.Owner(kind); by != (key.Identity{}) {
		return by
	}
	return key.Identity{Resource: key.CRDs, Name: kind.Resource.Resource + "." + kind.GVK.Group}
}

func terminating(kind *kinds.Kind, name, what, owner string) *apierrors.StatusError {
	return apierrors.NewForbidden(kind.GVR.GroupResource(), name,
		fmt.Errorf("unable to create new content in %s %s because it is being terminated", what, owner))
}

func groupResource(r key.Resource) schema.GroupResource {
	return schema.GroupResource{Group: r.APIGroup(), Resource: r.Resource}
}

// ownersSeen is what a request that may create an object knows of its owners.
// It belongs to one request.
type ownersSeen struct {
	server *Server
	owners []owner
	// revs are the owners' revisions when they were last seen to be alive; 0 for never.
	revs []int64
}

// admitting puts the owners of the object that a request may create into its context.
func (s *Server) admitting(ctx context.Context, all []owner) context.Context {
	return context.WithValue(ctx, admissionKey, &ownersSeen{server: s, owners: all, revs: make([]int64, len(all))})
}

func admissionFrom(ctx context.Context) *ownersSeen {
	a, _ := ctx.Value(admissionKey).(*ownersSeen)
	return a
}

// check fails unless all owners are alive. The table may lag, so it is trusted only if it
// shows a living owner, which the transaction then verifies.
func (a *ownersSeen) check(ctx context.Context) error {
	for i, o := range a.owners {
		if row, _ := a.server.config.Table.Get(o.object.Key()); row != nil && !row.Meta.Deleting {
			a.revs[i] = row.ModRev
			continue
		}
		r, err := a.server.client.Kubernetes.Get(ctx, a.server.etcdKey(o.object), kubernetes.GetOptions{})
		if err != nil {
			return fmt.Errorf("read %q: %w", o.object.Path(), err)
		}
		if r.KV == nil {
			return o.missing()
		}
		if err := a.saw(i, r.KV.Value, r.KV.ModRevision); err != nil {
			return err
		}
	}
	return nil
}

// saw notes an owner's current value.
func (a *ownersSeen) saw(i int, value []byte, rev int64) error {
	o := a.owners[i]
	if table.NewEntry(o.object.Key(), value, rev, rev).Meta.Deleting {
		return o.ending()
	}
	a.revs[i] = rev
	return nil
}

// ownedPuts makes creations conditional on the owners being unchanged since they were seen
// to be alive: no object can appear in a namespace, CRD or space after that was marked as
// being deleted. It also keeps spaces within their limits, and the log within its quota.
type ownedPuts struct {
	kubernetes.Interface
	kv     clientv3.KV
	prefix string
	table  *table.Table
	limits *quota.Limits
	room   Room
}

// maxOwnerChanges bounds how often a creation is retried because an owner was written at the
// same moment.
const maxOwnerChanges = 16

func (p ownedPuts) OptimisticPut(ctx context.Context, k string, value []byte, expected int64, opts kubernetes.PutOptions) (kubernetes.PutResponse, error) {
	if expected != 0 && textual.Is(ctx) {
		stored, err := p.stored(ctx, k, expected)
		if err != nil {
			return kubernetes.PutResponse{}, err
		}
		if stored != nil { // else the put fails
			var same bool
			if value, same, err = textual.Splice(ctx, stored, value); err != nil {
				return kubernetes.PutResponse{}, fmt.Errorf("%q: %w", k, err)
			}
			if same {
				return kubernetes.PutResponse{Succeeded: true, Revision: expected}, nil
			}
		}
	}
	done, err := p.reserve(ctx, k, value)
	if err != nil {
		return kubernetes.PutResponse{}, err
	}
	var resp kubernetes.PutResponse
	landed, err := p.room.Admit(ctx, p.writeOf(ctx, k, value))
	if err == nil {
		resp, err = p.put(ctx, k, value, expected, opts)
		err = landed(err)
	}
	if err == nil && resp.Succeeded {
		done(resp.Revision)
	} else {
		done(0)
	}
	return resp, err
}

// stored is the value at an etcd key and a revision; nil if it has another revision now.
func (p ownedPuts) stored(ctx context.Context, k string, rev int64) ([]byte, error) {
	if row, _ := p.table.Get(strings.TrimPrefix(k, p.prefix)); row != nil && row.ModRev == rev {
		return row.Value, nil
	}
	r, err := p.Interface.Get(ctx, k, kubernetes.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", k, err)
	}
	if r.KV == nil || r.KV.ModRevision != rev {
		return nil, nil
	}
	return r.KV.Value, nil
}

func (p ownedPuts) put(ctx context.Context, k string, value []byte, expected int64, opts kubernetes.PutOptions) (kubernetes.PutResponse, error) {
	a := admissionFrom(ctx)
	if expected != 0 || a == nil || len(a.owners) == 0 {
		return p.Interface.OptimisticPut(ctx, k, value, expected, opts)
	}
	for range maxOwnerChanges {
		// What does not hold is read once it did not: else each creation would have etcd keep the
		// questions, too.
		r, err := p.kv.Txn(ctx).If(a.conditions(k)...).Then(clientv3.OpPut(k, text(value), clientv3.WithLease(opts.LeaseID))).Commit()
		if err != nil {
			return kubernetes.PutResponse{}, err
		}
		resp := kubernetes.PutResponse{Succeeded: r.Succeeded, Revision: r.Header.Revision}
		if r.Succeeded {
			return resp, nil
		}
		there, err := a.look(ctx, p.kv, k)
		if err != nil {
			return resp, err
		}
		if there != nil {
			if opts.GetOnFailure {
				resp.KV = there
			}
			return resp, nil
		}
	}
	return kubernetes.PutResponse{}, apierrors.NewServerTimeout(groupResource(a.owners[0].object.Resource), "create", 1)
}

// conditions are that a key is not there, and that the owners are as they were seen.
func (a *ownersSeen) conditions(k string) []clientv3.Cmp {
	ifs := make([]clientv3.Cmp, 0, 1+2*len(a.owners))
	ifs = append(ifs, clientv3.Compare(clientv3.ModRevision(k), "=", 0))
	for i, o := range a.owners {
		ownerKey := a.server.etcdKey(o.object)
		ifs = append(ifs, clientv3.Compare(clientv3.ModRevision(ownerKey), "=", a.revs[i]))
		if a.revs[i] == 0 { // which is also what has never been
			ifs = append(ifs, clientv3.Compare(clientv3.Version(ownerKey), ">", 0))
		}
	}
	return ifs
}

// look reads a key and, if it is not there, sees the owners again. It fails if one is missing or ending.
func (a *ownersSeen) look(ctx context.Context, kv clientv3.KV, k string) (there *mvccpb.KeyValue, err error) {
	reads := make([]clientv3.Op, 0, 1+len(a.owners))
	reads = append(reads, clientv3.OpGet(k))
	for _, o := range a.owners {
		reads = append(reads, clientv3.OpGet(a.server.etcdKey(o.object)))
	}
	r, err := kv.Txn(ctx).Then(reads...).Commit()
	if err != nil {
		return nil, err
	}
	if kvs := r.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		return kvs[0], nil
	}
	for i := range a.owners {
		kvs := r.Responses[i+1].GetResponseRange().Kvs
		if len(kvs) == 0 {
			return nil, a.owners[i].missing()
		}
		if err := a.saw(i, kvs[0].Value, kvs[0].ModRevision); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// text is a value as a string, without a copy: nobody changes it.
func text(value []byte) string { return unsafe.String(unsafe.SliceData(value), len(value)) }
