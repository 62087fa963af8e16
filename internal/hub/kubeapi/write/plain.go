package write

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	kjson "sigs.k8s.io/json"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/lib/jsonscan"
)

// plain is a fast path for the usual way to create objects of a built-in kind: from JSON, answered in
// JSON, with a name, without a dry run. It does the same as the library's handler and registry, with
// the same strategy, but decodes and encodes the object only once, and answers with the stored bytes.
//
// The library serves all other requests, and all requests that plain would refuse. plain changes
// nothing before its transaction, so the library can start from the beginning.
type plain struct {
	server  *Server
	kind    *kinds.Kind
	objects *objects
	scope   *handlers.RequestScope
}

// plainOf returns the fast path for a resource, or nil if only the library creates its objects.
func (s *Server) plainOf(kind *kinds.Kind, strategy rest.RESTCreateStrategy, r *resource) *plain {
	o, ok := r.objects.(*objects)
	if kind.Created == nil || !ok || kind.Resource == eventResource {
		return nil
	}
	switch strategy.(type) {
	case inert, secrets, configMaps:
		return &plain{s, kind, o, r.scopes[""]}
	}
	return nil
}

// createTimeout is the timeout of a create, as in the library.
const createTimeout = 34 * time.Second

// serve serves a request, directly or with the library.
func (p *plain) serve(w http.ResponseWriter, req *http.Request, library http.HandlerFunc) {
	manager, ok := p.accepts(req)
	if !ok {
		library(w, req)
		return
	}
	limit := p.scope.MaxRequestBodyBytes
	d := createBufferPool.Get().(*createBuffers)
	d.body.Reset()
	d.body.Grow(int(max(0, min(req.ContentLength, limit))) + bytes.MinRead)
	err := requestbody.Buffer(req, limit, &d.body)
	var made []byte
	if ok = err == nil && int64(d.body.Len()) <= limit; ok {
		ctx, cancel := context.WithTimeout(req.Context(), createTimeout)
		defer cancel()
		made, err = p.create(ctx, d, manager)
	}
	switch {
	case !ok || errors.Is(err, errUnusual):
		var end error
		if !ok {
			end = err
		}
		requestbody.Replace(req, d.body.Bytes(), end) // d is not reused: the request keeps its bytes
		library(w, req)
		return
	case err != nil:
		responsewriters.ErrorNegotiated(err, p.scope.Serializer, p.kind.GVK.GroupVersion(), w, req)
	default:
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(made) // fails only if the client has disconnected
	}
	d.leave()
}

// createBuffers are the buffers for the creation of one object. A pool reuses them.
type createBuffers struct {
	body, encoded bytes.Buffer
	value, made   []byte
}

// maxPooledBuffer is the size above which a buffer is not reused.
const maxPooledBuffer = 64 << 10

var createBufferPool = sync.Pool{New: func() any { return new(createBuffers) }}

// leave returns the buffers to the pool. Their bytes must not be in use.
func (d *createBuffers) leave() {
	if max(d.body.Cap(), d.encoded.Cap(), cap(d.value), cap(d.made)) <= maxPooledBuffer {
		createBufferPool.Put(d)
	}
}

// errUnusual is returned if the library must serve the request.
var errUnusual = errors.New("not created in the usual way")

// accepts reports whether the fast path may serve a request, and returns the field manager.
func (p *plain) accepts(req *http.Request) (manager string, ok bool) {
	if req.Header.Get("Content-Type") != runtime.ContentTypeJSON || len(req.Header["Accept"]) > 1 {
		return "", false
	}
	switch req.Header.Get("Accept") {
	case runtime.ContentTypeJSON, runtime.ContentTypeJSON + ", */*", "*/*", "":
	default:
		return "", false
	}
	// The library indents its responses to these.
	agent := req.UserAgent()
	if slices.ContainsFunc([]string{"curl", "Wget", "Mozilla/5.0"}, func(browser string) bool { return strings.HasPrefix(agent, browser) }) {
		return "", false
	}
	if manager, ok = managerOf(req.URL, agent); !ok || exportWriteFrom(req.Context()) != nil {
		return "", false
	}
	// An audit log with bodies contains them as the library encodes them.
	log := audit.AuditContextFrom(req.Context())
	return manager, !log.Enabled() || log.GetEventLevel().Less(auditinternal.LevelRequest)
}

// managerOf returns the field manager that a query names, or else that of the user agent. ok is false
// if the query has any other parameter but fieldValidation: the fast path refuses unknown fields.
func managerOf(u *url.URL, agent string) (manager string, ok bool) {
	if u.RawQuery != "" {
		query, err := url.ParseQuery(u.RawQuery)
		if err != nil {
			return "", false
		}
		for name, values := range query {
			switch {
			case len(values) != 1:
				return "", false
			case name == "fieldManager":
				manager = values[0]
			case name != "fieldValidation" || values[0] != metav1.FieldValidationStrict && values[0] != metav1.FieldValidationWarn:
				return "", false
			}
		}
	}
	if manager == "" {
		manager, _, _ = strings.Cut(agent, "/")
	}
	const longest = 128 // the limit of k8s.io/apimachinery
	usual := func(r rune) bool {
		return r == '-' || r == '_' || r == '.' || r == ':' || r == ' ' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	return manager, manager != "" && len(manager) <= longest && !strings.ContainsFunc(manager, func(r rune) bool { return !usual(r) })
}

// create creates the object whose JSON is in the buffers, and returns the response, which is in the
// buffers, too. It fails with errUnusual if it changed nothing and the library must serve the request.
func (p *plain) create(ctx context.Context, d *createBuffers, manager string) ([]byte, error) {
	obj, m, err := p.decode(ctx, d.body.Bytes())
	if err != nil {
		return nil, err
	}
	info, ok := request.RequestInfoFrom(ctx)
	if !ok {
		return nil, errUnusual
	}
	rest.WipeObjectMetaSystemFields(m)
	if rest.EnsureObjectNamespaceMatchesRequestNamespace(rest.ExpectedNamespaceForResource(info.Namespace, p.scope.Resource), m) != nil {
		return nil, errUnusual
	}
	ctx, err = p.objects.admit(request.WithNamespace(ctx, info.Namespace), m.GetName())
	if err != nil {
		return nil, errUnusual
	}
	rest.FillObjectMetaSystemFields(m)
	if _, err := beginCreate(ctx, obj, nil); err != nil {
		return nil, errUnusual
	}
	if rest.BeforeCreate(p.objects.CreateStrategy, ctx, obj) != nil || !p.admitted(ctx, info, m.GetName(), obj) {
		return nil, errUnusual
	}
	etcdKey, err := p.objects.KeyFunc(ctx, m.GetName())
	if err != nil {
		return nil, errUnusual
	}
	if err := p.encode(d, obj, manager, time.Now()); err != nil {
		return nil, err
	}
	r, err := p.server.client.Kubernetes.OptimisticPut(ctx, etcdKey, d.value, 0, kubernetes.PutOptions{})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, apierrors.NewTimeoutError(fmt.Sprintf("request did not complete within requested timeout - %s", ctx.Err()), 0)
	case err != nil:
		return nil, storeerr.InterpretCreateError(err, p.kind.GVR.GroupResource(), m.GetName())
	case !r.Succeeded:
		return nil, errUnusual // the library returns the error for an existing name
	}
	d.made, err = answered(d.made[:0], d.value, string(m.GetUID()), r.Revision)
	return d.made, err
}

// decode decodes a body that contains an object of the kind and nothing else.
func (p *plain) decode(ctx context.Context, body []byte) (runtime.Object, metav1.Object, error) {
	obj := p.kind.New()
	if strict, err := kjson.UnmarshalStrict(body, obj); err != nil || len(strict) > 0 {
		return nil, nil, errUnusual
	}
	m, err := meta.Accessor(obj)
	if err != nil || obj.GetObjectKind().GroupVersionKind() != p.kind.GVK {
		return nil, nil, errUnusual
	}
	if m.GetName() == "" || m.GetGenerateName() != "" || m.GetResourceVersion() != "" || m.GetManagedFields() != nil || len(m.GetOwnerReferences()) > 1 {
		return nil, nil, errUnusual
	}
	if status, ok := statusOf(obj); ok && p.kind.HasStatus && !status.IsZero() {
		return nil, nil, errUnusual // its fields are not validated here
	}
	foldStringData(obj)
	audit.LogRequestObject(ctx, obj, p.kind.GVK.GroupVersion(), p.scope.Resource, "", p.scope.Serializer)
	return obj, m, nil
}

// admitted reports whether the admission plugins accept the object.
func (p *plain) admitted(ctx context.Context, info *request.RequestInfo, name string, obj runtime.Object) bool {
	check := p.server.config.Admission
	if check == nil || !check.Handles(admission.Create) {
		return true
	}
	user, _ := request.UserFrom(ctx)
	attributes := admission.NewAttributesRecord(obj, nil, p.scope.Kind, info.Namespace, name, p.scope.Resource, "", admission.Create, &metav1.CreateOptions{}, false, user)
	return check.Validate(ctx, attributes, p.scope) == nil
}

// encode encodes the stored value of an object that a manager creates at a time. Managed fields are
// computed from the encoded object, and are the last field of the metadata.
func (p *plain) encode(d *createBuffers, obj runtime.Object, manager string, now time.Time) error {
	d.encoded.Reset()
	obj.GetObjectKind().SetGroupVersionKind(p.kind.GVK)
	if err := json.NewEncoder(&d.encoded).Encode(obj); err != nil {
		return errUnusual
	}
	object := d.encoded.Bytes()
	end, ok := endOfMetadata(object)
	if !ok {
		return errUnusual
	}
	value := append(d.value[:0], object[:end]...)
	value = append(value, `,"managedFields":[{"manager":"`...)
	value = append(value, manager...)
	value = append(value, `","operation":"Update","apiVersion":"`...)
	value = append(value, p.kind.GVK.GroupVersion().String()...)
	value = append(value, `","time":"`...)
	value = now.UTC().AppendFormat(value, time.RFC3339)
	value = append(value, `","fieldsType":"FieldsV1","fieldsV1":`...)
	before := len(value)
	if value, ok = p.kind.Created.Append(value, object[:len(object)-1]); !ok {
		return errUnusual
	}
	if len(value) == before { // the manager owns no fields
		value = value[:end]
	} else {
		value = append(value, "}]"...)
	}
	d.value = append(value, object[end:]...)
	if len(d.value) > p.server.config.ObjectBytes {
		return errUnusual
	}
	return nil
}

// endOfMetadata returns the offset at which the metadata of an encoded object ends.
func endOfMetadata(value []byte) (end int, ok bool) {
	const name = `"metadata":`
	offset := bytes.Index(value, []byte(name)) // preceded by kind and apiVersion
	if offset < 0 {
		return 0, false
	}
	end, ok = jsonscan.End(value, offset+len(name))
	return end - 1, ok && end-offset > len(name+"{}")
}

// answered appends the response of a create: the stored value with its revision. The
// resourceVersion is inserted after the UID, whose text is unique in the value.
func answered(made, value []byte, uid string, rev int64) ([]byte, error) {
	mark := `"uid":"` + uid + `"`
	offset := bytes.Index(value, []byte(mark))
	if offset < 0 {
		return made, apierrors.NewInternalError(errors.New("the created object has no UID"))
	}
	offset += len(mark)
	made = append(made, value[:offset]...)
	made = append(made, `,"resourceVersion":"`...)
	made = strconv.AppendInt(made, rev, 10)
	made = append(made, '"')
	return append(made, value[offset:]...), nil
}
