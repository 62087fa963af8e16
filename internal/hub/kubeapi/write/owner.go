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

// owner is an object that must exist, and not be being deleted, when another object is created: the
// space, the namespace, or the CRD or APIBinding that defines its kind. An owner is deleted after its
// objects, so none may be created meanwhile.
type owner struct {
	object key.Object
	// missing and ending return the errors for the client.
	missing, ending func() error
}

// owners returns the owners of an object of a kind in a namespace (empty if cluster-scoped).
func (s *Server) owners(space key.Space, kind *kinds.Kind, namespace, name string) []owner {
	all := make([]owner, 0, 3)
	own := func(space key.Space, r key.Resource, name string, ending func() error) {
		all = append(all, owner{
			object:  key.Object{Space: space, Identity: key.Identity{Resource: r, Name: name}},
			missing: func() error { return apierrors.NewNotFound(groupResource(r), name) },
			ending:  ending,
		})
	}
	if space != key.Root {
		own(key.Root, key.Spaces, string(space), func() error { return terminating(kind, name, "space", string(space)) })
	}
	if kind.Custom != nil && kind.GVK.Group != key.Spaces.Group {
		identity := s.definer(space, kind)
		own(space, identity.Resource, identity.Name, func() error {
			what := "custom resource definition"
			if identity.Resource == key.APIBindings {
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

// definer returns the CRD or APIBinding that defines a custom kind in a space.
func (s *Server) definer(space key.Space, kind *kinds.Kind) key.Identity {
	// If the catalog has an error, the kind may be missing from it. Its CRD has a known name.
	catalog, _ := s.config.Kinds.Catalog(space, s.config.Table.Snapshot())
	if identity := catalog.Owner(kind); identity != (key.Identity{}) {
		return identity
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

// ownersSeen has the owners of an object that a request may create. It belongs to one request.
type ownersSeen struct {
	server *Server
	owners []owner
	// revs are the latest revisions at which the owners were not being deleted; 0 for unknown.
	revs []int64
}

// admitting adds the owners of the object that a request may create to its context.
func (s *Server) admitting(ctx context.Context, all []owner) context.Context {
	return context.WithValue(ctx, admissionKey, &ownersSeen{server: s, owners: all, revs: make([]int64, len(all))})
}

func admissionFrom(ctx context.Context) *ownersSeen {
	a, _ := ctx.Value(admissionKey).(*ownersSeen)
	return a
}

// check fails unless all owners exist and none is being deleted. The table may lag, so it is trusted
// only if it has such an owner; the transaction verifies its revision.
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

// saw records the current value of an owner. It fails if the owner is being deleted.
func (a *ownersSeen) saw(i int, value []byte, rev int64) error {
	o := a.owners[i]
	if table.NewEntry(o.object.Key(), value, rev, rev).Meta.Deleting {
		return o.ending()
	}
	a.revs[i] = rev
	return nil
}

// ownedPuts makes creations conditional on the revisions of the owners, so that no object can appear
// in a namespace, CRD or space that is being deleted. It also enforces the limits of spaces and the
// quota of the log.
type ownedPuts struct {
	kubernetes.Interface
	kv     clientv3.KV
	prefix string
	table  *table.Table
	limits *quota.Limits
	room   Room
}

// maxOwnerChanges limits the retries of a creation whose owner is written concurrently.
const maxOwnerChanges = 16

func (p ownedPuts) OptimisticPut(ctx context.Context, k string, value []byte, expected int64, opts kubernetes.PutOptions) (kubernetes.PutResponse, error) {
	if expected != 0 && textual.Is(ctx) {
		stored, err := p.stored(ctx, k, expected)
		if err != nil {
			return kubernetes.PutResponse{}, err
		}
		if stored != nil { // otherwise the put fails
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

// stored returns the value of an etcd key at a revision; nil if the key has another revision now.
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
		// The transaction has no Else: etcd would store its reads with each creation. A failed
		// condition is examined with a second request.
		r, err := p.kv.Txn(ctx).If(a.conditions(k)...).Then(clientv3.OpPut(k, text(value), clientv3.WithLease(opts.LeaseID))).Commit()
		if err != nil {
			return kubernetes.PutResponse{}, err
		}
		resp := kubernetes.PutResponse{Succeeded: r.Succeeded, Revision: r.Header.Revision}
		if r.Succeeded {
			return resp, nil
		}
		there, err := a.reread(ctx, p.kv, k)
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

// conditions require that a key does not exist, and that the owners have their known revisions.
func (a *ownersSeen) conditions(k string) []clientv3.Cmp {
	ifs := make([]clientv3.Cmp, 0, 1+2*len(a.owners))
	ifs = append(ifs, clientv3.Compare(clientv3.ModRevision(k), "=", 0))
	for i, o := range a.owners {
		ownerKey := a.server.etcdKey(o.object)
		ifs = append(ifs, clientv3.Compare(clientv3.ModRevision(ownerKey), "=", a.revs[i]))
		if a.revs[i] == 0 { // a missing key has this revision, too
			ifs = append(ifs, clientv3.Compare(clientv3.Version(ownerKey), ">", 0))
		}
	}
	return ifs
}

// reread reads a key and, if it does not exist, the owners. It fails if an owner is missing or being
// deleted.
func (a *ownersSeen) reread(ctx context.Context, kv clientv3.KV, k string) (there *mvccpb.KeyValue, err error) {
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

// text returns a value as a string without a copy. The value must not be changed afterwards.
func text(value []byte) string { return unsafe.String(unsafe.SliceData(value), len(value)) }
