package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// done notes a change that the agent makes.
func (l *lifeline) done(verb string, before, after *thing) {
	l.writes++
	changed := before
	if changed == nil {
		changed = after
	}
	l.wrote = append(l.wrote, fmt.Sprintf("%s of %s at %s", verb, changed.id, time.Now().Format(time.TimeOnly)))
	if l.witness != nil {
		l.witness(verb, before, after)
	}
	l.checkChange(verb, before, after)
	if l.last--; l.last == 0 {
		l.dead.Store(true)
		l.die()
	}
}

// lives refuses what cannot be made where it is to be.
func (l *lifeline) lives(id key.Identity) *apierrors.StatusError {
	gr := schema.GroupResource{Group: id.APIGroup(), Resource: id.Resource.Resource}
	if d := l.objects[widgetsCRD.String()]; id.APIGroup() == "example.com" && d != nil && d.terminating {
		return apierrors.NewMethodNotSupported(gr, "create")
	}
	if id.Namespace == "" {
		return nil
	}
	in := key.Identity{Resource: key.Namespaces, Name: id.Namespace}
	switch n := l.objects[in.String()]; {
	case n == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, id.Namespace)
	case n.terminating:
		err := apierrors.NewForbidden(gr, id.Name, errors.New("the namespace is being terminated"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating"}}
		return err
	}
	return nil
}

func invalidField(id key.Identity, field, message string) *apierrors.StatusError {
	err := apierrors.NewInvalid(schema.GroupKind{Kind: id.Resource.Resource}, id.Name, nil)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "FieldValueInvalid", Field: field, Message: message}}
	return err
}

// fixedField is where objects of a resource have a value that can't be changed once it is set, and
// cause how an API server names it; empty: they have none.
func fixedField(r key.Resource) (path []string, cause string) {
	switch r.Resource {
	case "configmaps":
		return []string{"data", "fixed"}, "data"
	case "services":
		return []string{"spec", "clusterIP"}, "spec.clusterIPs[0]"
	case "jobs":
		return []string{"spec", "template"}, "spec.template"
	case key.CRDs.Resource:
		return []string{"spec", "scope"}, "spec.scope"
	default:
		return nil, ""
	}
}

// differs reports whether the value of an object that can't be changed is to change.
func differs(o *thing, fields map[string]string) bool {
	path, _ := fixedField(o.id.Resource)
	p := fieldPath(path...)
	return o.fields[p] != "" && fields[p] != "" && o.fields[p] != fields[p]
}

// valid is what kinds require of their objects: no field is "bad", and what is
// fixed does not change.
func valid(before, after *thing) *apierrors.StatusError {
	if _, cause := fixedField(after.id.Resource); before.id == after.id && differs(before, after.fields) {
		return invalidField(after.id, cause, "Invalid value: field is immutable")
	}
	if p := fieldPath("data", "v"); after.fields[p] == `"bad"` {
		return invalidField(after.id, p, "Invalid value: bad")
	}
	return nil
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (l *lifeline) patchApply(id key.Identity, q url.Values, body []byte) *http.Response {
	var b map[string]any
	if err := json.Unmarshal(body, &b); err != nil {
		panic(err)
	}
	meta := b["metadata"].(map[string]any)
	gr := schema.GroupResource{Group: id.APIGroup(), Resource: id.Resource.Resource}
	now := l.objects[id.String()]
	if named := fmt.Sprint(meta["namespace"], " ", meta["name"]); named != fmt.Sprint(orNil(id.Namespace), " ", id.Name) {
		return failed(apierrors.NewBadRequest("the body is of " + named))
	}
	uid, rv := fmt.Sprint(meta["uid"]), fmt.Sprint(meta["resourceVersion"])
	switch {
	case now == nil && meta["uid"] != nil:
		return failed(apierrors.NewConflict(gr, id.Name, errors.New("uid mismatch")))
	case now == nil:
		if err := l.lives(id); err != nil {
			return failed(err)
		}
		now = &thing{id: id, kind: servedKind(id.Resource).kind}
	case meta["uid"] != nil && uid != now.uid && l.rng.IntN(2) == 0:
		return failed(invalidField(id, "metadata.uid", "field is immutable"))
	case meta["uid"] != nil && uid != now.uid, meta["resourceVersion"] != nil && rv != fmt.Sprint(now.revision):
		return failed(apierrors.NewConflict(gr, id.Name, errors.New("it is another object")))
	}
	next := now.apply(owner{q.Get("fieldManager"), "Apply"}, flatten(b))
	if added := fieldPath("data", "admitted"); next.fields[added] == "" && id.Resource.Resource == "configmaps" {
		next.fields[added] = `"by the cluster"` // without a field owner
	}
	if err := valid(now, next); err != nil {
		return failed(err)
	}
	if q.Get("dryRun") != "" {
		next.json = next.encode()
		return answerOf(http.StatusOK, next.whole())
	}
	before := l.objects[id.String()]
	if before == nil && decide.OwnsPods(id.Resource) {
		next.status = `{"active":1}`
	}
	l.done("apply", before, next)
	if v := fieldPath("data", "v"); l.weather.paints && next.fields[v] != "" {
		next.fields[v] = `"painted"` // the field owner stays the same
	}
	if v := fieldPath("data", "fixed"); l.weather.fixes && next.fields[v] != "" {
		next.fields[v] = `"painted"`
	}
	if before == nil || !before.same(next) {
		next = l.set(id.String(), next)
	}
	return answerOf(http.StatusOK, next.whole())
}

// create makes a namespace, or finds out whether something could be made.
func (l *lifeline) create(id key.Identity, q url.Values, body []byte) *http.Response {
	var b map[string]any
	if err := json.Unmarshal(body, &b); err != nil {
		panic(err)
	}
	id.Name = b["metadata"].(map[string]any)["name"].(string)
	gr := schema.GroupResource{Group: id.APIGroup(), Resource: id.Resource.Resource}
	if err := l.lives(id); err != nil {
		return failed(err)
	}
	next := &thing{id: id, kind: servedKind(id.Resource).kind}
	next = next.apply(owner{q.Get("fieldManager"), "Update"}, flatten(b))
	if err := valid(&thing{}, next); err != nil {
		return failed(err)
	}
	switch {
	case l.objects[id.String()] != nil:
		return failed(apierrors.NewAlreadyExists(gr, id.Name))
	case q.Get("dryRun") != "":
		next.json = next.encode()
		return answerOf(http.StatusOK, next.json)
	}
	l.done("create", nil, next)
	return answerOf(http.StatusCreated, l.set(id.String(), next).json)
}

// patchMeta is a merge patch of metadata.
func (l *lifeline) patchMeta(now *thing, q url.Values, body []byte) *http.Response {
	var b struct {
		Metadata struct {
			UID             string                    `json:"uid"`
			ResourceVersion string                    `json:"resourceVersion"`
			Labels          map[string]*string        `json:"labels"`
			Annotations     map[string]*string        `json:"annotations"`
			ManagedFields   []ownership.ManagedFields `json:"managedFields"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		panic(err)
	}
	gr := schema.GroupResource{Group: now.id.APIGroup(), Resource: now.id.Resource.Resource}
	if b.Metadata.UID != now.uid || b.Metadata.ResourceVersion != "" && b.Metadata.ResourceVersion != fmt.Sprint(now.revision) {
		return failed(apierrors.NewConflict(gr, now.id.Name, errors.New("it is another object")))
	}
	change, verb := map[string]*string{}, "hand over"
	for kind, values := range map[string]map[string]*string{"labels": b.Metadata.Labels, "annotations": b.Metadata.Annotations} {
		for name, v := range values {
			if verb == "hand over" {
				verb = "let go"
			}
			if v != nil {
				verb = "mark"
				quoted := strconv.Quote(*v)
				v = &quoted
			}
			change[fieldPath("metadata", kind, name)] = v
		}
	}
	if verb == "mark" && len(b.Metadata.ManagedFields) > 0 { // both: the field owners, and then the change
		verb, now = "take over", now.copy()
	}
	next := now.edit(q.Get("fieldManager"), change)
	if _, pair := change[fieldPath("metadata", "annotations", v1alpha1.LogAnnotation)]; pair && len(change) == 1 {
		verb = "refresh"
	}
	if verb == "mark" || verb == "refresh" {
		l.done(verb, now, next)
		return answerOf(http.StatusOK, l.set(now.id.String(), next).json)
	}
	owners := map[owner]map[string]bool{}
	for _, f := range b.Metadata.ManagedFields {
		if f.Manager == "" {
			continue
		}
		owners[owner{f.Manager, f.Operation}] = pathsOf(f.FieldsV1)
	}
	if verb == "take over" {
		owned := now.copy()
		owned.owners = owners
		owners = owned.edit(q.Get("fieldManager"), change).owners
	}
	for m, paths := range owners { // a removed field has no owner
		for p := range paths {
			if _, ok := next.fields[p]; !ok {
				delete(paths, p)
			}
		}
		if len(paths) == 0 {
			delete(owners, m)
		}
	}
	next.owners = owners
	l.done(verb, now, next)
	return answerOf(http.StatusOK, l.set(now.id.String(), next).json)
}
