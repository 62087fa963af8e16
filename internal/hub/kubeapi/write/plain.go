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

// plain creates objects of a built-in kind that come in the most usual way: as JSON, to be
// answered as JSON, under a name, without a dry run. It does what the library's handler and
// registry do, with the same strategy, but decodes once, encodes once, and answers with the bytes
// that it stores.
//
// Whatever is unusual, and whatever is refused, is left to the library, which is asked as if
// nothing had been: until its transaction, plain has changed nothing.
type plain struct {
	server  *Server
	kind    *kinds.Kind
	objects *objects
	scope   *handlers.RequestScope
}

// plainOf is how objects of a resource are created; nil: by the library.
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

// createTimeout is after which time a create is given up, as by the library.
const createTimeout = 34 * time.Second

// serve answers a request, or has the library do so.
func (p *plain) serve(w http.ResponseWriter, req *http.Request, library http.HandlerFunc) {
	manager, ok := p.asks(req)
	if !ok {
		library(w, req)
		return
	}
	limit := p.scope.MaxRequestBodyBytes
	d := desks.Get().(*desk)
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
		requestbody.Replace(req, d.body.Bytes(), end) // so d is not another's
		library(w, req)
		return
	case err != nil:
		responsewriters.ErrorNegotiated(err, p.scope.Serializer, p.kind.GVK.GroupVersion(), w, req)
	default:
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(made) // a client that is gone needs no answer
	}
	d.leave()
}

// desk is where one object after the other is created.
type desk struct {
	body, encoded bytes.Buffer
	value, made   []byte
}

// largestDesk is how large a buffer of one may have become that is used again.
const largestDesk = 64 << 10

var desks = sync.Pool{New: func() any { return new(desk) }}

// leave has the desk used again. Nothing on it is in use any more.
func (d *desk) leave() {
	if max(d.body.Cap(), d.encoded.Cap(), cap(d.value), cap(d.made)) <= largestDesk {
		desks.Put(d)
	}
}

// errUnusual says that a request is left to the library.
var errUnusual = errors.New("not created in the usual way")

// asks says whether a request is one in the usual way, and by whom, as managed fields have it.
func (p *plain) asks(req *http.Request) (manager string, ok bool) {
	if req.Header.Get("Content-Type") != runtime.ContentTypeJSON || len(req.Header["Accept"]) > 1 {
		return "", false
	}
	switch req.Header.Get("Accept") {
	case runtime.ContentTypeJSON, runtime.ContentTypeJSON + ", */*", "*/*", "":
	default:
		return "", false
	}
	// To these the library answers with spaces, for people.
	agent := req.UserAgent()
	if slices.ContainsFunc([]string{"curl", "Wget", "Mozilla/5.0"}, func(of string) bool { return strings.HasPrefix(agent, of) }) {
		return "", false
	}
	if manager, ok = managerOf(req.URL, agent); !ok || passageFrom(req.Context()) != nil {
		return "", false
	}
	// With bodies in it, the audit log has them as the library encodes them.
	log := audit.AuditContextFrom(req.Context())
	return manager, !log.Enabled() || log.GetEventLevel().Less(auditinternal.LevelRequest)
}

// managerOf is who a query says that manages what is created, or else the user agent. It fails if
// the query says anything else, but how fields are validated that are unknown: there are none then.
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
	const longest = 128 // of managers of k8s.io/apimachinery
	usual := func(r rune) bool {
		return r == '-' || r == '_' || r == '.' || r == ':' || r == ' ' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	return manager, manager != "" && len(manager) <= longest && !strings.ContainsFunc(manager, func(r rune) bool { return !usual(r) })
}

// create creates the object whose JSON is on a desk, and returns the answer, which is there, too. It
// fails with errUnusual if it did not, and the library is to try.
func (p *plain) create(ctx context.Context, d *desk, manager string) ([]byte, error) {
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
		return nil, errUnusual // there is one of that name, as the library will say
	}
	d.made, err = answered(d.made[:0], d.value, string(m.GetUID()), r.Revision)
	return d.made, err
}

// decode decodes a body that has an object of the kind and nothing else.
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
		return nil, nil, errUnusual // what is not right in it would not be seen here
	}
	foldStringData(obj)
	audit.LogRequestObject(ctx, obj, p.kind.GVK.GroupVersion(), p.scope.Resource, "", p.scope.Serializer)
	return obj, m, nil
}

// admitted says whether nothing is said against an object by who writes it.
func (p *plain) admitted(ctx context.Context, info *request.RequestInfo, name string, obj runtime.Object) bool {
	check := p.server.config.Admission
	if check == nil || !check.Handles(admission.Create) {
		return true
	}
	who, _ := request.UserFrom(ctx)
	about := admission.NewAttributesRecord(obj, nil, p.scope.Kind, info.Namespace, name, p.scope.Resource, "", admission.Create, &metav1.CreateOptions{}, false, who)
	return check.Validate(ctx, about, p.scope) == nil
}

// encode makes the value of an object that a manager creates at a time, as it is stored. Managed
// fields are the last of the metadata, and found in what else is stored.
func (p *plain) encode(d *desk, obj runtime.Object, manager string, now time.Time) error {
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
	if len(value) == before { // nobody owns anything
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

// endOfMetadata is where the metadata of an object end that was encoded.
func endOfMetadata(value []byte) (end int, ok bool) {
	const name = `"metadata":`
	at := bytes.Index(value, []byte(name)) // before it are the kind and its version
	if at < 0 {
		return 0, false
	}
	end, ok = jsonscan.End(value, at+len(name))
	return end - 1, ok && end-at > len(name+"{}")
}

// answered appends the answer to who created an object: what is stored, with its revision where it has
// its place, after the UID that nobody else has.
func answered(made, value []byte, uid string, rev int64) ([]byte, error) {
	mark := `"uid":"` + uid + `"`
	at := bytes.Index(value, []byte(mark))
	if at < 0 {
		return made, apierrors.NewInternalError(errors.New("what was created has no UID"))
	}
	at += len(mark)
	made = append(made, value[:at]...)
	made = append(made, `,"resourceVersion":"`...)
	made = strconv.AppendInt(made, rev, 10)
	made = append(made, '"')
	return append(made, value[at:]...), nil
}
