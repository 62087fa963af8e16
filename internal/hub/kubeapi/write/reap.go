package write

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// document is a stored object of any kind with decoded metadata. All other fields keep their bytes.
type document struct{ object, metadata map[string]json.RawMessage }

func parseDocument(value []byte) (document, error) {
	var d document
	if err := json.Unmarshal(value, &d.object); err != nil {
		return d, fmt.Errorf("decode object: %w", err)
	}
	if err := json.Unmarshal(d.object["metadata"], &d.metadata); err != nil {
		return d, fmt.Errorf("decode metadata: %w", err)
	}
	return d, nil
}

func (d document) get(field string, to any) error {
	value, ok := d.metadata[field]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(value, to); err != nil {
		return fmt.Errorf("decode metadata.%s: %w", field, err)
	}
	return nil
}

func (d document) set(field string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode metadata.%s: %w", field, err)
	}
	d.metadata[field] = data
	return nil
}

// value encodes the document as codecs do: JSON and a newline.
func (d document) value() ([]byte, error) {
	metadata, err := json.Marshal(d.metadata)
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	d.object["metadata"] = metadata
	data, err := json.Marshal(d.object)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	return append(data, '\n'), nil
}

// change is a decision about an object: delete it (gone), write a new value, or nothing. more requires
// another decision about the new value. If the log has no space for the new value, the object is
// deleted at once instead, unless marked is set.
type change struct {
	value              []byte
	gone, more, marked bool
}

// rewriter rewrites and deletes stored objects of any kind, without their codecs.
type rewriter struct {
	// client reads and writes the log, in which keys begin with prefix. table follows the log.
	client *kubernetes.Client
	prefix string
	table  *table.Table
	now    func() time.Time
}

// reap deletes an object like a client's delete: an object with finalizers only gets a deletion
// timestamp. It needs no kind, and so also deletes objects that no catalog serves. An assigned object
// that is deleted with an APIBinding first gets an annotation with the binding's name, for its
// locations. If the log has no space for that, the object stays. The result is a revision that
// includes the change.
func (w *rewriter) reap(ctx context.Context, row *table.Row, with key.Identity) (int64, error) {
	_, resource, _, _ := key.Split(row.Key)
	unbound := with.Resource == key.APIBindings && assigned(row)
	steps, waits := goesInSteps(resource) || unbound, waitsForRemoval(row)
	return w.rewrite(ctx, row, func(d document) (change, error) {
		var finalizers []string
		var deleting *time.Time
		var generation int64
		for field, to := range map[string]any{"finalizers": &finalizers, "deletionTimestamp": &deleting, "generation": &generation} {
			if err := d.get(field, to); err != nil {
				return change{}, err
			}
		}
		if waits && deleting == nil && !slices.Contains(finalizers, v1alpha1.RemovalFinalizer) {
			finalizers = append(finalizers, v1alpha1.RemovalFinalizer)
		}
		switch {
		case len(finalizers) == 0 && (deleting != nil || !steps):
			return change{gone: true}, nil
		case deleting != nil:
			return change{}, nil
		}
		set := map[string]any{"deletionTimestamp": w.now().UTC().Format(time.RFC3339), "deletionGracePeriodSeconds": 0}
		if len(finalizers) > 0 {
			set["finalizers"] = finalizers
		}
		if generation > 0 {
			set["generation"] = generation + 1
		}
		if unbound {
			annotations := map[string]string{}
			if err := d.get("annotations", &annotations); err != nil {
				return change{}, err
			}
			annotations[v1alpha1.UnboundAnnotation] = with.Name
			set["annotations"] = annotations
		}
		for field, value := range set {
			if err := d.set(field, value); err != nil {
				return change{}, err
			}
		}
		value, err := d.value()
		return change{value: value, more: len(finalizers) == 0, marked: unbound}, err
	})
}

// assigned reports whether a row's object is assigned to any location.
func assigned(row *table.Row) bool {
	m, ok := row.In.(*placement.Membership)
	return ok && len(m.Members()) > 0
}

// release removes the finalizer of an owner without content, and deletes it if there is no other.
func (w *rewriter) release(ctx context.Context, o key.Object, row *table.Row) error {
	rev, err := w.rewrite(ctx, row, func(d document) (change, error) {
		return d.without(finalizerOf(o.Resource))
	})
	if err != nil {
		return fmt.Errorf("release %q: %w", o.Path(), err)
	}
	return w.table.WaitFor(ctx, rev)
}

// without removes a finalizer from an object that is being deleted. Without others, it is deleted.
func (d document) without(finalizer string) (change, error) {
	var finalizers []string
	if err := d.get("finalizers", &finalizers); err != nil || !slices.Contains(finalizers, finalizer) {
		return change{}, err
	}
	rest := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == finalizer })
	if len(rest) == 0 {
		return change{gone: true}, nil
	}
	if err := d.set("finalizers", rest); err != nil {
		return change{}, err
	}
	value, err := d.value()
	return change{value: value}, err
}

// rewrite applies decide to one object, starting with the table's value, until the write succeeds. It
// ignores an object that was deleted and created again. The result is a revision that includes the
// change.
func (w *rewriter) rewrite(ctx context.Context, row *table.Row, decide func(document) (change, error)) (int64, error) {
	k, value, rev := w.prefix+row.Key, row.Value, row.ModRev
	for {
		d, err := parseDocument(value)
		if err != nil {
			return 0, fmt.Errorf("%q: %w", row.Key, err)
		}
		var uid string
		if err := d.get("uid", &uid); err != nil || uid != row.Meta.UID {
			return rev, err
		}
		c, err := decide(d)
		if err != nil {
			return 0, fmt.Errorf("%q: %w", row.Key, err)
		}
		var done kubernetes.PutResponse
		switch {
		case c.gone:
			if done, err = w.drop(ctx, k, rev); err != nil {
				return 0, fmt.Errorf("delete %q: %w", row.Key, err)
			}
		case c.value != nil:
			done, err = w.client.Kubernetes.OptimisticPut(ctx, k, c.value, rev, kubernetes.PutOptions{GetOnFailure: true})
			if c.more && !c.marked && noRoom(err) {
				done, err = w.drop(ctx, k, rev)
				c.more = false
			}
			if err != nil {
				return 0, fmt.Errorf("write %q: %w", row.Key, err)
			}
		default:
			return rev, nil
		}
		switch {
		case done.Succeeded && c.more:
			value, rev = c.value, done.Revision
		case done.Succeeded || done.KV == nil:
			return done.Revision, nil
		default:
			value, rev = done.KV.Value, done.KV.ModRevision
		}
	}
}

func (w *rewriter) drop(ctx context.Context, k string, rev int64) (kubernetes.PutResponse, error) {
	r, err := w.client.Kubernetes.OptimisticDelete(ctx, k, rev, kubernetes.DeleteOptions{GetOnFailure: true})
	return kubernetes.PutResponse(r), err
}
