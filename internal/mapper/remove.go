package mapper

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

const (
	// inUseRetry is how long something in use is left alone: what others have in it
	// is not observed.
	inUseRetry = time.Minute
	// emptyingRetry is the longest wait for something that is about to be empty.
	emptyingRetry = 15 * time.Second
	// maxPages bounds the search for something foreign.
	maxPages = 50
)

// remove deletes the object that has the UID, unless others still use it.
func (r *reconciler) remove(ctx context.Context, t *turn, d decision) (outcome, error) {
	o := outcome{record: t.record}
	use, err := r.useOf(ctx, t.id)
	if err != nil {
		return o, err
	}
	switch {
	case use.ours:
		o.state, o.reason, o.failed = wire.Removing, "NotEmpty", true
		o.retry = backoff(t.view.failures, firstRetry, emptyingRetry)
		return o, nil
	case use.by != "":
		m, err := r.target.get(ctx, t.view.at, t.id)
		switch {
		case missingObject(err, t.id), err == nil && m.UID != d.uid:
			return outcome{forget: true, seen: r.gone(t)}, nil
		case err != nil:
			return o, err
		case use.desired || !m.cascades():
			o.state, o.reason, o.message, o.retry = wire.Orphaned, "InUse", use.by, inUseRetry
			return o, nil
		}
	}
	gone, err := r.target.remove(ctx, t.view.at, t.id, d.uid)
	switch {
	case err == nil && !gone:
		o.state, o.reason, o.retry = wire.Removing, "Terminating", terminatingRetry
		if t.view.seen.presence == present && t.view.seen.uid == d.uid {
			seen := t.view.seen
			seen.terminating = true
			o.seen = &seen
		}
		return o, nil
	case preconditionFailed(err):
		return r.removalRefused(ctx, t, d, err)
	case missingKind(err):
		return r.verifyKind(ctx, t)
	case err != nil && !missingObject(err, t.id) && !missingNamespace(err, t.id):
		return o, err
	}
	r.log.Debug("removed", "object", t.object().Path())
	return outcome{forget: true, seen: r.gone(t)}, nil
}

// gone is what is seen of an object that is known to be deleted.
func (r *reconciler) gone(t *turn) *observed {
	if t.record != nil && t.view.seen.presence == present && t.view.seen.uid != t.record.UID {
		return nil // another one has its name, and proves to be ours too
	}
	return &observed{presence: absent, revision: t.view.seen.revision}
}

// removalRefused finds out whether another object has the name by now, or
// whether ours is still there and being deleted.
func (r *reconciler) removalRefused(ctx context.Context, t *turn, d decision, refused error) (outcome, error) {
	m, err := r.target.get(ctx, t.view.at, t.id)
	switch {
	case missingObject(err, t.id), err == nil && m.UID != d.uid:
		return outcome{forget: true, seen: r.gone(t)}, nil
	case err != nil:
		return outcome{}, err
	case m.DeletionTimestamp == "":
		return r.refused(t, refused), nil
	}
	return outcome{record: t.record, decision: decision{
		state: wire.Removing, reason: "Terminating", retry: terminatingRetry,
	}}, nil
}

// verifyKind finds out whether the resource is gone, and all its objects with it,
// or whether the target only fails to serve it, or serves it again by now.
// Objects of Kubernetes' own kinds do not go when a target stops serving them.
func (r *reconciler) verifyKind(ctx context.Context, t *turn) (outcome, error) {
	crd := key.Identity{Resource: key.CRDs, Name: t.id.Resource.Resource + "." + t.id.APIGroup()}
	_, err := r.target.get(ctx, crdPlace, crd)
	if err != nil && !missingKind(err) && !missingObject(err, crd) {
		return outcome{}, err
	}
	_, builtin := builtinGroups[t.id.Group]
	if missingObject(err, crd) && !builtin {
		switch now, err := r.target.find(ctx, t.id.Resource); {
		case err != nil:
			return outcome{}, err
		case now.version == "":
			return outcome{forget: true, seen: &observed{presence: absent, revision: t.view.seen.revision}}, nil
		}
	}
	return outcome{record: t.record, decision: decision{
		state: wire.Removing, reason: "NoSuchResource", retry: time.Minute,
		message: "the location does not serve this resource now",
	}}, nil
}

// usage says who uses what is to be deleted.
type usage struct {
	ours    bool   // objects of ours, that are to go too
	by      string // something else: what
	desired bool   // which is what the location is to have
}

// containers are the identities of what an object is in: its namespace, and the
// definition of its kind.
func containers(id key.Identity) (in []string) {
	if id.Namespace != "" {
		in = append(in, key.Identity{Resource: key.Namespaces, Name: id.Namespace}.String())
	}
	if _, builtin := builtinGroups[id.Group]; !builtin {
		in = append(in, key.Identity{Resource: key.CRDs, Name: id.Resource.Resource + "." + id.APIGroup()}.String())
	}
	return in
}

// useOf finds out what is inside a Namespace or belongs to a CustomResourceDefinition.
func (r *reconciler) useOf(ctx context.Context, id key.Identity) (usage, error) {
	var in func(key.Identity) bool
	var foreign func(context.Context, string) (string, error)
	switch id.Resource {
	case key.Namespaces:
		in = func(o key.Identity) bool { return o.Namespace == id.Name }
		foreign = r.foreignInNamespace
	case key.CRDs:
		in = func(o key.Identity) bool { return o.Resource.Resource+"."+o.APIGroup() == id.Name }
		foreign = r.foreignOfDefinition
	default:
		return usage{}, nil
	}
	wanted, leaving := r.engine.within(in)
	if wanted > 0 {
		return usage{desired: true, by: fmt.Sprintf("%d objects of this location are still inside", wanted)}, nil
	}
	if leaving > 0 {
		return usage{ours: true}, nil
	}
	by, err := foreign(ctx, id.Name)
	return usage{by: by}, err
}

func (r *reconciler) foreignOfDefinition(ctx context.Context, name string) (string, error) {
	resource, group, _ := strings.Cut(name, ".")
	version, err := r.target.preferred(ctx, group)
	if err != nil || version == "" {
		return "", err
	}
	at := place{Resource: key.NewResource(group, resource), version: version}
	p, err := r.target.list(ctx, at, "", url.Values{
		"limit": {"1"}, "labelSelector": {locationLabel + "!=" + string(r.self())},
	}, false)
	if missingKind(err) {
		return "", nil // it was never established
	}
	if err != nil || len(p.Items) == 0 {
		return "", err
	}
	return "there is " + describe(at.Resource, &p.Items[0].Metadata), nil
}

func (r *reconciler) foreignInNamespace(ctx context.Context, name string) (string, error) {
	all, err := r.target.namespaced(ctx)
	if err != nil {
		return "", err
	}
	for _, s := range all {
		if companions[s.Resource] {
			continue
		}
		by, err := r.foreignIn(ctx, s, name)
		if by != "" || err != nil {
			return by, err
		}
	}
	return "", nil
}

func (r *reconciler) foreignIn(ctx context.Context, s served, namespace string) (string, error) {
	query := url.Values{"limit": {"100"}}
	for range maxPages {
		p, err := r.target.list(ctx, s.place, namespace, query, false)
		if err != nil {
			return "", err
		}
		for i := range p.Items {
			m := &p.Items[i].Metadata
			if _, ours := m.provesOurs(r.self(), s.kind); !ours && !m.controlled() && !inEveryNamespace(s.Resource, m) {
				return "there is " + describe(s.Resource, m), nil
			}
		}
		if p.Metadata.Continue == "" {
			return "", nil
		}
		query.Set("continue", p.Metadata.Continue)
	}
	return "there are very many " + s.Resource.String(), nil
}

func describe(r key.Resource, m *objectMeta) string {
	return key.Identity{Resource: r, Namespace: m.Namespace, Name: m.Name}.String()
}

// companions are resources whose objects come with others and go with them.
var companions = map[key.Resource]bool{
	key.NewResource("", "events"):                         true,
	key.NewResource("events.k8s.io", "events"):            true,
	key.NewResource("", "endpoints"):                      true,
	key.NewResource("discovery.k8s.io", "endpointslices"): true,
}

// inEveryNamespace says whether Kubernetes itself makes the object in every namespace.
func inEveryNamespace(r key.Resource, m *objectMeta) bool {
	switch r {
	case key.NewResource("", "serviceaccounts"):
		return m.Name == "default"
	case key.NewResource("", "configmaps"):
		return m.Name == "kube-root-ca.crt"
	case key.NewResource("", "secrets"):
		return m.Annotations["kubernetes.io/service-account.name"] == "default"
	default:
		return false
	}
}
