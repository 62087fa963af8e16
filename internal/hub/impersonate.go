package hub

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

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
	extra := slices.ContainsFunc(slices.Collect(maps.Keys(h)), func(k string) bool {
		return strings.HasPrefix(k, authenticationv1.ImpersonateUserExtraHeaderPrefix)
	})
	switch {
	case name == "" && len(groups) == 0 && uid == "" && !extra:
		return u, nil
	case extra:
		return nil, badRequest("users have no extra fields here: %s… is not supported", authenticationv1.ImpersonateUserExtraHeaderPrefix)
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
