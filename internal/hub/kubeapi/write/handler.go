package write

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/protocol/key"
)

// Handler returns the handler of one request for a kind in a space: create, update, patch, delete
// and deletecollection of objects, and get, update and patch of their status and scale. An error is
// a Kubernetes status with the reason why the request is refused.
//
// The handler must serve only this request, because the library's handlers change captured
// variables.
func (s *Server) Handler(kind *kinds.Kind, space key.Space, info *request.RequestInfo) (http.HandlerFunc, error) {
	if err := key.ValidateName(string(space)); err != nil {
		return nil, apierrors.NewBadRequest("space " + err.Error())
	}
	if err := s.config.checkRequest(kind, space, info); err != nil {
		return nil, err
	}
	r, err := s.resourceOf(kind)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	handle, err := r.served().handler(info, s.admission())
	if err != nil {
		return nil, err
	}
	return func(w http.ResponseWriter, req *http.Request) {
		if err := requestbody.Object(req, r.scopes[""].MaxRequestBodyBytes); err != nil {
			respond.Error(w, req, err)
			return
		}
		if s, ok := SpaceFromContext(req.Context()); !ok || s != space {
			req = req.WithContext(WithSpace(req.Context(), space))
		}
		if r.plain != nil && info.Verb == "create" && info.Subresource == "" {
			r.plain.serve(w, req, handle)
			return
		}
		handle(w, req)
	}, nil
}

// checkRequest refuses requests that no storage serves, and writes of kinds of which a newer hub with
// the same log knows more.
func (c *Config) checkRequest(kind *kinds.Kind, space key.Space, info *request.RequestInfo) error {
	resource := kind.GVR.GroupResource()
	if space != key.Root && info.Verb != "get" && (kind.Resource == key.Spaces || kind.Resource == key.Locations) {
		return apierrors.NewMethodNotSupported(resource, info.Verb)
	}
	if kind.Resource == key.Namespaces && info.Verb == "deletecollection" {
		return apierrors.NewMethodNotSupported(resource, info.Verb)
	}
	inNamespace := info.Namespace != "" && kind.Resource != key.Namespaces
	switch {
	case inNamespace && !kind.Namespaced:
		return apierrors.NewNotFound(resource, info.Name)
	case kind.Namespaced && !inNamespace && info.Name == "":
		return apierrors.NewMethodNotSupported(resource, info.Verb)
	case kind.Namespaced && !inNamespace:
		return apierrors.NewNotFound(resource, info.Name)
	case info.Verb == "create" && info.Name != "", info.Name == "" && (info.Verb == "update" || info.Verb == "patch") && kind.Custom == nil:
		return apierrors.NewMethodNotSupported(resource, info.Verb)
	}
	if info.Verb == "get" {
		return nil
	}
	return c.Outdated(kind.Resource)
}

// admission returns the admission plugins for the library's handlers, or nil.
func (s *Server) admission() admission.Interface {
	if s.config.Admission == nil {
		return nil // a nil of the interface type
	}
	return s.config.Admission
}

// served contains what the library's handlers need to serve a resource.
type served struct {
	kind    *kinds.Kind
	scopes  map[string]*handlers.RequestScope
	objects objectStorage
	// status and scale are nil if the kind has none.
	status, scale rest.Patcher
}

// served returns what handlers need for a resource in a space.
func (r *resource) served() served {
	return served{r.kind, r.scopes, r.objects, r.statuses(), r.scales()}
}

// handler returns the library's handler of a request.
func (r served) handler(info *request.RequestInfo, admit admission.Interface) (http.HandlerFunc, error) {
	scope := r.scopes[info.Subresource]
	if scope == nil {
		return nil, apierrors.NewNotFound(r.kind.GVR.GroupResource(), fmt.Sprintf("%s/%s", info.Name, info.Subresource))
	}
	storage := r.storage(info.Subresource)
	switch info.Verb {
	case "get":
		if info.Subresource != "" {
			return handlers.GetResource(storage, scope), nil
		}
	case "update":
		return handlers.UpdateResource(storage, scope, admit), nil
	case "patch":
		return handlers.PatchResource(storage, scope, admit, r.patchTypes()), nil
	}
	if info.Subresource == "" {
		switch info.Verb {
		case "create":
			return handlers.CreateResource(r.objects, scope, admit), nil
		case "delete":
			return handlers.DeleteResource(r.objects, true, scope, admit), nil
		case "deletecollection":
			return handlers.DeleteCollection(r.objects, true, scope, admit), nil
		}
	}
	return nil, apierrors.NewMethodNotSupported(r.kind.GVR.GroupResource(), info.Verb)
}

// storage returns the storage of a subresource, which the kind must have.
func (r served) storage(subresource string) rest.Patcher {
	switch subresource {
	case kinds.StatusSubresource:
		return r.status
	case kinds.ScaleSubresource:
		return r.scale
	}
	return r.objects
}

func (r served) patchTypes() []string {
	if r.kind.Custom != nil {
		return []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType)}
	}
	return []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType), string(types.ApplyYAMLPatchType)}
}
