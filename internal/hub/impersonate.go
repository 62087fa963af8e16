package hub

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
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
	extra := extraOf(h)
	switch {
	case name == "" && len(groups) == 0 && uid == "" && len(extra) == 0:
		return u, nil
	case name == "":
		return nil, badRequest("requested %#v without impersonating a user name", &user.DefaultInfo{UID: uid, Groups: groups, Extra: extra})
	case !slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup):
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "users"}, name, fmt.Errorf("user %q cannot impersonate", u.GetName()))
	}
	if !slices.Contains(groups, user.AllAuthenticated) {
		groups = append(slices.Clone(groups), user.AllAuthenticated)
	}
	maps.DeleteFunc(h, func(k string, _ []string) bool { return strings.HasPrefix(k, "Impersonate-") })
	return &user.DefaultInfo{Name: name, UID: uid, Groups: groups, Extra: extra}, nil
}

// extraOf are the extra fields of who is to be acted as. They say nothing to the
// hub's rules, and are there for who asks who they are.
func extraOf(h http.Header) map[string][]string {
	var extra map[string][]string
	for k, values := range h {
		if !strings.HasPrefix(k, authenticationv1.ImpersonateUserExtraHeaderPrefix) {
			continue
		}
		name := strings.ToLower(strings.TrimPrefix(k, authenticationv1.ImpersonateUserExtraHeaderPrefix))
		if plain, err := url.PathUnescape(name); err == nil { // else, as in Kubernetes, it is as it is
			name = plain
		}
		if extra == nil {
			extra = map[string][]string{}
		}
		extra[name] = append(extra[name], values...)
	}
	return extra
}
