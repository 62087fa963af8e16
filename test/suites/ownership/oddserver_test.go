package ownership

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// oddServer is an aggregated API server as third parties write them: its resource versions are not
// numbers, it does not serve metadata only, and it records managed fields only for apply requests.
type oddServer struct {
	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured // by name
	serial  int
	changed chan struct{} // closed and replaced at each change
	events  []oddEvent
	// padding is how many bytes each object has more in a list.
	padding int
}

type oddEvent struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

const oddGroup = "odd.example"

func startOddServer(s *suite) (*oddServer, *httptest.Server) {
	o := &oddServer{objects: map[string]*unstructured.Unstructured{}, changed: make(chan struct{})}
	server := httptest.NewTLSServer(o)
	s.Cleanup(server.CloseClientConnections)
	return o, server
}

// set stores an object, or removes it if it is nil. The lock is held.
func (o *oddServer) set(name string, u *unstructured.Unstructured) {
	o.serial++
	kind, old := "MODIFIED", o.objects[name]
	switch {
	case u == nil:
		kind, u = "DELETED", old.DeepCopy()
		delete(o.objects, name)
	case old == nil:
		kind = "ADDED"
		u.SetUID(types.UID(fmt.Sprintf("odd-%d", o.serial)))
		fallthrough
	default:
		o.objects[name] = u
	}
	u.SetResourceVersion(fmt.Sprintf("r%d", o.serial))
	o.events = append(o.events, oddEvent{kind, u.Object})
	close(o.changed)
	o.changed = make(chan struct{})
}

// tamper sets the value of an object directly at the server.
func (o *oddServer) tamper(name, value string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	u := o.objects[name].DeepCopy()
	u.Object["spec"] = map[string]any{"v": value}
	u.SetManagedFields(nil)
	o.set(name, u)
}

func (o *oddServer) value(name string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.objects[name] == nil {
		return ""
	}
	v, _, _ := unstructured.NestedString(o.objects[name].Object, "spec", "v")
	return v
}

func (o *oddServer) pad(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.padding = n
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}

func oddStatus(code int, reason metav1.StatusReason, name string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
		Details: &metav1.StatusDetails{Group: oddGroup, Kind: "odds", Name: name},
	}
}

// ServeHTTP implements http.Handler.
func (o *oddServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	version := metav1.GroupVersionForDiscovery{GroupVersion: oddGroup + "/v1", Version: "v1"}
	group := metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: oddGroup, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}
	switch {
	case len(p) == 1 && p[0] == "apis":
		answer(w, http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{group}})
	case len(p) == 2 && p[0] == "apis":
		answer(w, http.StatusOK, group)
	case len(p) == 3 && p[0] == "apis":
		answer(w, http.StatusOK, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version.GroupVersion,
			APIResources: []metav1.APIResource{{Name: "odds", SingularName: "odd", Kind: "Odd", Verbs: []string{"get", "list", "watch", "patch", "delete"}}},
		})
	case len(p) == 4 && r.URL.Query().Get("watch") != "":
		o.watch(w, r)
	case len(p) == 4 && r.Method == http.MethodGet:
		o.list(w, r)
	case len(p) == 5:
		o.object(w, r, p[4])
	default:
		answer(w, http.StatusNotFound, oddStatus(http.StatusNotFound, metav1.StatusReasonNotFound, ""))
	}
}

func (o *oddServer) list(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil {
		limit = 500
	}
	name, value, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
	items, more := []any{}, ""
	for _, k := range slices.Sorted(maps.Keys(o.objects)) {
		u := o.objects[k].DeepCopy()
		if k <= r.URL.Query().Get("continue") || name != "" && u.GetLabels()[name] != value {
			continue
		}
		if len(items) == limit {
			break
		}
		more = k
		u.Object["status"] = map[string]any{"padding": strings.Repeat("x", o.padding)}
		items = append(items, u.Object)
	}
	if len(items) < limit {
		more = ""
	}
	answer(w, http.StatusOK, map[string]any{
		"apiVersion": oddGroup + "/v1", "kind": "OddList", "items": items,
		"metadata": map[string]any{"resourceVersion": fmt.Sprintf("r%d", o.serial), "continue": more},
	})
}

func (o *oddServer) watch(w http.ResponseWriter, r *http.Request) {
	next, err := strconv.Atoi(strings.TrimPrefix(r.URL.Query().Get("resourceVersion"), "r"))
	if err != nil {
		answer(w, http.StatusGone, oddStatus(http.StatusGone, metav1.StatusReasonExpired, ""))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	for {
		o.mu.Lock()
		events, changed := slices.Clone(o.events[next:]), o.changed
		o.mu.Unlock()
		next += len(events)
		for _, e := range events {
			if json.NewEncoder(w).Encode(e) != nil {
				return
			}
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func (o *oddServer) object(w http.ResponseWriter, r *http.Request, name string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.objects[name]
	switch {
	case now == nil && r.Method != http.MethodPatch:
		answer(w, http.StatusNotFound, oddStatus(http.StatusNotFound, metav1.StatusReasonNotFound, name))
	case r.Method == http.MethodGet:
		answer(w, http.StatusOK, now.Object)
	case r.Method == http.MethodDelete:
		o.set(name, nil)
		answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
	default:
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(body, &u.Object); err != nil {
			answer(w, http.StatusBadRequest, oddStatus(http.StatusBadRequest, metav1.StatusReasonBadRequest, name))
			return
		}
		if now == nil && u.GetUID() != "" || now != nil && u.GetUID() != now.GetUID() {
			answer(w, http.StatusConflict, oddStatus(http.StatusConflict, metav1.StatusReasonConflict, name))
			return
		}
		owned := &metav1.FieldsV1{}
		owned.SetRawString(`{"f:spec":{"f:v":{}}}`)
		u.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: r.URL.Query().Get("fieldManager"), Operation: metav1.ManagedFieldsOperationApply, APIVersion: oddGroup + "/v1",
			FieldsType: "FieldsV1", FieldsV1: owned,
		}})
		o.set(name, u)
		answer(w, http.StatusOK, u.Object)
	}
}
