package builtin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/hub/kinds"
)

// TestHandlersServeEveryKind sends what clients send through the handlers of
// k8s.io/apiserver, over a storage that holds one object.
func TestHandlersServeEveryKind(t *testing.T) {
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) {
			m := &memory{kind: s.kind}
			name := gjson.GetBytes(s.canonical, "metadata.name").String()
			created := m.do(t, http.MethodPost, "", runtime.ContentTypeYAML, string(s.yaml))
			m.expect(t, created, http.StatusCreated)
			labelled := `{"metadata":{"labels":{"touched":"%"}}}`
			for _, patch := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
				m.expect(t, m.do(t, http.MethodPatch, name, string(patch), strings.Replace(labelled, "%", "yes", 1)), http.StatusOK)
			}
			m.expect(t, m.do(t, http.MethodPatch, name, string(types.JSONPatchType),
				`[{"op":"add","path":"/metadata/labels/json","value":"too"}]`), http.StatusOK)
			m.expect(t, m.do(t, http.MethodPatch, name, string(types.ApplyPatchType), string(s.canonical)), http.StatusOK)
			if got := accessor(t, m.object).GetLabels()["json"]; got != "too" {
				t.Errorf("patches left labels %v", accessor(t, m.object).GetLabels())
			}
			served := m.do(t, http.MethodGet, name, "", "")
			m.expect(t, served, http.StatusOK)
			m.expect(t, m.do(t, http.MethodPut, name, runtime.ContentTypeJSON, served.Body.String()), http.StatusOK)
			if got := m.do(t, http.MethodGet, "", "", ""); got.Code != http.StatusOK || len(gjson.Get(got.Body.String(), "items").Array()) != 1 {
				t.Errorf("list: %d %s", got.Code, got.Body)
			}
			if got := m.do(t, http.MethodGet, "?fieldSelector=spec.nope%3D1", "", ""); got.Code != http.StatusBadRequest {
				t.Errorf("list by an unknown field: %d %s", got.Code, got.Body)
			}
		})
	}
}

func accessor(t *testing.T, obj runtime.Object) metav1.Object {
	t.Helper()
	m, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// memory is the storage of one object of one kind.
type memory struct {
	kind   *kinds.Kind
	object runtime.Object
}

// expect checks a response's code and that it is the kind as served.
func (m *memory) expect(t *testing.T, got *httptest.ResponseRecorder, code int) {
	t.Helper()
	if got.Code != code {
		t.Fatalf("%d, want %d: %s", got.Code, code, got.Body)
	}
	apiVersion, kind := m.kind.GVK.ToAPIVersionAndKind()
	r := gjson.GetMany(got.Body.String(), "apiVersion", "kind")
	if r[0].String() != apiVersion || r[1].String() != kind {
		t.Fatalf("served as %s %s, want %s %s", r[0], r[1], apiVersion, kind)
	}
}

func (m *memory) do(t *testing.T, method, name, contentType, body string) *httptest.ResponseRecorder {
	t.Helper()
	name, query, _ := strings.Cut(name, "?")
	scope := m.kind.Scope("")
	handler := map[string]func() http.HandlerFunc{
		http.MethodPost: func() http.HandlerFunc { return handlers.CreateResource(m, scope, nil) },
		http.MethodPut:  func() http.HandlerFunc { return handlers.UpdateResource(m, scope, nil) },
		http.MethodGet:  func() http.HandlerFunc { return handlers.GetResource(m, scope) },
		http.MethodPatch: func() http.HandlerFunc {
			return handlers.PatchResource(m, scope, nil, []string{contentType})
		},
	}[method]()
	if method == http.MethodGet && name == "" {
		handler = handlers.ListResource(m, nil, scope, false, 0)
	}
	path := "/" + name
	if contentType == string(types.ApplyPatchType) {
		query = url.Values{"fieldManager": {"tester"}, "force": {"true"}}.Encode()
	}
	r := httptest.NewRequest(method, path+"?"+query, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Accept", runtime.ContentTypeJSON)
	info := &request.RequestInfo{IsResourceRequest: true, Verb: strings.ToLower(method), Name: name,
		APIGroup: m.kind.GVR.Group, APIVersion: m.kind.GVR.Version, Resource: m.kind.GVR.Resource}
	if m.kind.Namespaced {
		info.Namespace = "shop"
	}
	ctx := request.WithRequestInfo(request.WithNamespace(r.Context(), info.Namespace), info)
	ctx = request.WithUser(audit.WithAuditContext(ctx), &user.DefaultInfo{Name: "tester"})
	w := httptest.NewRecorder()
	handler(w, r.WithContext(ctx))
	return w
}

func (m *memory) New() runtime.Object     { return m.kind.New() }
func (m *memory) NewList() runtime.Object { return m.kind.NewList() }
func (m *memory) Destroy()                {}

func (m *memory) Create(_ context.Context, obj runtime.Object, _ rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	return m.keep(obj)
}

// keep stores an object as the log does.
func (m *memory) keep(obj runtime.Object) (runtime.Object, error) {
	stored, err := runtime.Encode(m.kind.StorageCodec, obj)
	if err != nil {
		return nil, err
	}
	if m.object, err = runtime.Decode(m.kind.StorageCodec, stored); err != nil {
		return nil, err
	}
	a, err := meta.Accessor(m.object)
	if err != nil {
		return nil, err
	}
	a.SetResourceVersion("1")
	a.SetUID("u")
	return m.object.DeepCopyObject(), nil
}

func (m *memory) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if m.object == nil {
		return nil, apierrors.NewNotFound(m.kind.GVR.GroupResource(), name)
	}
	return m.object.DeepCopyObject(), nil
}

func (m *memory) Update(ctx context.Context, _ string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	_ rest.ValidateObjectUpdateFunc, _ bool, _ *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	obj, err := info.UpdatedObject(ctx, m.object.DeepCopyObject())
	if err != nil {
		return nil, false, err
	}
	obj, err = m.keep(obj)
	return obj, false, err
}

func (m *memory) List(context.Context, *metainternalversion.ListOptions) (runtime.Object, error) {
	list := m.NewList()
	return list, meta.SetList(list, []runtime.Object{m.object.DeepCopyObject()})
}

func (m *memory) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return m.kind.Columns.ConvertToTable(ctx, obj, options)
}
