package hub

import (
	"fmt"
	"net/http"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
)

// actingAs is who a request is to be judged as: members of system:masters may
// act as anybody, by the headers that Kubernetes has for it. They are never
// left aside: who asks to have fewer rights must not act with all of them.
func actingAs(u user.Info, h http.Header) (user.Info, error) {
	name := h.Get(authenticationv1.ImpersonateUserHeader)
	groups := h.Values(authenticationv1.ImpersonateGroupHeader)
	uid := h.Get(authenticationv1.ImpersonateUIDHeader)
	switch {
	case name == "" && len(groups) == 0 && uid == "":
		return u, nil
	case name == "":
		return nil, badRequest("requested %q without impersonating a user", groups)
	case !slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup):
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "users"}, name, fmt.Errorf("user %q cannot impersonate", u.GetName()))
	}
	if !slices.Contains(groups, user.AllAuthenticated) {
		groups = append(slices.Clone(groups), user.AllAuthenticated)
	}
	for _, name := range []string{authenticationv1.ImpersonateUserHeader, authenticationv1.ImpersonateGroupHeader, authenticationv1.ImpersonateUIDHeader} {
		h.Del(name)
	}
	return &user.DefaultInfo{Name: name, UID: uid, Groups: groups}, nil
}
