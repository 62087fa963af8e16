package hub

import (
	"net/http"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/kinds"
)

// TestReviews asks as an operator and as an agent, in a space and across all.
func TestReviews(t *testing.T) {
	registry, err := kinds.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	admin := &user.DefaultInfo{Name: adminUser, UID: "1", Groups: []string{user.SystemPrivilegedGroup}, Extra: map[string][]string{"k": {"v"}}}
	agent := &user.DefaultInfo{Name: locationPrefix + "edge", Groups: []string{locationsGroup}}
	space := &reviewer{catalog: registry.Builtin("a"), root: "/spaces/a"}
	everywhere := &reviewer{catalog: registry.Builtin(key.Root), root: "/spaces/*"}
	for _, c := range []struct {
		what     string
		in       *reviewer
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
		if ask(t, c.in, c.who, review); review.Status.Allowed != c.may {
			t.Errorf("%s: %+v", c.what, review.Status)
		}
	}

	path := &authorizationv1.SelfSubjectAccessReview{}
	path.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/version"}
	if ask(t, space, admin, path); !path.Status.Allowed {
		t.Errorf("a path: %+v", path.Status)
	}
	for who, may := range map[user.Info]int{admin: 1, agent: 0} {
		rules := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "n"}}
		if ask(t, space, who, rules); len(rules.Status.ResourceRules) != may || len(rules.Status.NonResourceRules) != may || rules.Status.Incomplete {
			t.Errorf("rules of %s: %+v", who.GetName(), rules.Status)
		}
	}
	me := &authenticationv1.SelfSubjectReview{}
	ask(t, space, admin, me)
	if i := me.Status.UserInfo; i.Username != adminUser || i.UID != "1" || len(i.Groups) != 1 || len(i.Extra["k"]) != 1 {
		t.Errorf("I am %+v", i)
	}
}

// TestBadReviews are refused as Kubernetes refuses them.
func TestBadReviews(t *testing.T) {
	registry, err := kinds.NewRegistry()
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
		r := &reviewer{catalog: registry.Builtin("a"), root: "/spaces/a", kind: &kinds.Kind{}}
		ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "x"})
		if _, err := r.Create(ctx, c.review, nil, nil); !c.is(err) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestActingAs changes who is judged, and only for those who may do everything.
func TestActingAs(t *testing.T) {
	admin := &user.DefaultInfo{Name: adminUser, Groups: []string{user.SystemPrivilegedGroup}}
	agent := &user.DefaultInfo{Name: locationPrefix + "edge", Groups: []string{locationsGroup}}
	as := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Add(pairs[i], pairs[i+1])
		}
		return h
	}
	if who, err := actingAs(agent, as()); err != nil || who.GetName() != agent.Name {
		t.Errorf("nobody else: %v, %v", who, err)
	}
	who, err := actingAs(admin, as("Impersonate-User", "somebody", "Impersonate-Group", "some", "Impersonate-Uid", "7"))
	if err != nil || who.GetName() != "somebody" || who.GetUID() != "7" || !slices.Equal(who.GetGroups(), []string{"some", user.AllAuthenticated}) {
		t.Errorf("an operator as somebody: %+v, %v", who, err)
	}
	if allowed(who, http.MethodGet, "/spaces/a/api") {
		t.Error("somebody may do what an operator may")
	}
	if _, err := actingAs(agent, as("Impersonate-User", adminUser, "Impersonate-Group", user.SystemPrivilegedGroup)); !apierrors.IsForbidden(err) {
		t.Errorf("an agent as an operator: %v", err)
	}
	if _, err := actingAs(admin, as("Impersonate-Group", "some")); !apierrors.IsBadRequest(err) {
		t.Errorf("a group without a user: %v", err)
	}
	if _, err := actingAs(admin, as("Impersonate-Extra-Scopes", "some")); !apierrors.IsBadRequest(err) {
		t.Errorf("extra fields alone: %v", err)
	}
	who, err = actingAs(admin, as("Impersonate-User", "somebody", "Impersonate-Extra-Scopes", "one", "Impersonate-Extra-Scopes", "two", "Impersonate-Extra-Example.com%2fkey", "x"))
	if err != nil || !slices.Equal(who.GetExtra()["scopes"], []string{"one", "two"}) || !slices.Equal(who.GetExtra()["example.com/key"], []string{"x"}) {
		t.Errorf("extra fields are %v, %v", who.GetExtra(), err)
	}
}

func ask(t *testing.T, r *reviewer, who user.Info, review runtime.Object) {
	t.Helper()
	if _, err := r.Create(request.WithUser(t.Context(), who), review, nil, nil); err != nil {
		t.Fatal(err)
	}
}
