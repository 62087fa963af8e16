package auth

import (
	"context"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// TestReviews creates reviews as an administrator and as an agent, in one space and in all.
func TestReviews(t *testing.T) {
	registry, err := registry.New()
	if err != nil {
		t.Fatal(err)
	}
	admin := &user.DefaultInfo{Name: AdminUser, UID: "1", Groups: []string{user.SystemPrivilegedGroup}, Extra: map[string][]string{"k": {"v"}}}
	agent := &user.DefaultInfo{Name: enroll.UserPrefix + "edge", Groups: []string{enroll.Agents}}
	space := reviewRequest{&reviewer{catalog: registry.Builtin("a"), authorizer: &Authorizer{}}, route.Space("a")}
	everywhere := reviewRequest{&reviewer{catalog: registry.Builtin(key.Root), authorizer: &Authorizer{}}, route.Space(key.AllSpaces)}
	for _, c := range []struct {
		what     string
		in       reviewRequest
		who      user.Info
		resource authorizationv1.ResourceAttributes
		may      bool
	}{
		{"anything", space, admin, authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"}, true},
		{"writes", space, admin, authorizationv1.ResourceAttributes{Verb: "create", Group: "apps", Version: "v1", Resource: "deployments", Namespace: "n"}, true},
		{"what is read-only", space, admin, authorizationv1.ResourceAttributes{Verb: "delete", Group: "orrery.dev", Resource: "locations"}, false},
		{"reads of it", space, admin, authorizationv1.ResourceAttributes{Verb: "watch", Group: "orrery.dev", Resource: "locations"}, true},
		{"writes across spaces", everywhere, admin, authorizationv1.ResourceAttributes{Verb: "patch", Resource: "pods"}, false},
		{"reads across spaces", everywhere, admin, authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"}, true},
		{"an agent", space, agent, authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Namespace: "n", Name: "x", Subresource: "status"}, false},
	} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &c.resource}}
		if sendReview(t, c.in, c.who, review); review.Status.Allowed != c.may {
			t.Errorf("%s: %+v", c.what, review.Status)
		}
	}

	path := &authorizationv1.SelfSubjectAccessReview{}
	path.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/version"}
	if sendReview(t, space, admin, path); !path.Status.Allowed {
		t.Errorf("a path: %+v", path.Status)
	}
	for who, may := range map[user.Info]int{admin: 1, agent: 0} {
		rules := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "n"}}
		if sendReview(t, space, who, rules); len(rules.Status.ResourceRules) != may || len(rules.Status.NonResourceRules) != may || rules.Status.Incomplete {
			t.Errorf("rules of %s: %+v", who.GetName(), rules.Status)
		}
	}
	me := &authenticationv1.SelfSubjectReview{}
	sendReview(t, space, admin, me)
	if i := me.Status.UserInfo; i.Username != AdminUser || i.UID != "1" || len(i.Groups) != 1 || len(i.Extra["k"]) != 1 {
		t.Errorf("I am %+v", i)
	}
}

// TestBadReviews: invalid reviews are refused as in Kubernetes.
func TestBadReviews(t *testing.T) {
	registry, err := registry.New()
	if err != nil {
		t.Fatal(err)
	}
	both := authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{}, NonResourceAttributes: &authorizationv1.NonResourceAttributes{},
	}
	for _, c := range []struct {
		what   string
		review runtime.Object
		is     func(error) bool
	}{
		{"nothing asked", &authorizationv1.SelfSubjectAccessReview{}, apierrors.IsInvalid},
		{"two things asked", &authorizationv1.SelfSubjectAccessReview{Spec: both}, apierrors.IsInvalid},
		{"no namespace", &authorizationv1.SelfSubjectRulesReview{}, apierrors.IsBadRequest},
	} {
		r := &reviewer{catalog: registry.Builtin("a"), authorizer: &Authorizer{}, kind: &kinds.Kind{}}
		ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "x"})
		if _, err := r.Create(ctx, c.review, nil, nil); !c.is(err) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// reviewRequest is a reviewer at a root.
type reviewRequest struct {
	*reviewer
	root route.Root
}

func sendReview(t *testing.T, a reviewRequest, who user.Info, review runtime.Object) {
	t.Helper()
	ctx := context.WithValue(request.WithUser(t.Context(), who), rootKey{}, a.root)
	if _, err := a.Create(ctx, review, nil, nil); err != nil {
		t.Fatal(err)
	}
}
