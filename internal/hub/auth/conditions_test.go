package auth

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// TestConditionsOfDecisions: code that decides about a request in apiserver's filters can add stream
// conditions, and only the handler of that request finds them.
func TestConditionsOfDecisions(t *testing.T) {
	var served []table.Condition
	handler := filters.WithAuthorization(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { served = ConditionsOf(r.Context()) }),
		authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			restOn(ctx, table.Condition{Key: "o/root/orrery.dev/somethings/" + a.GetUser().GetName()})
			return authorizer.DecisionAllow, "", nil
		}), nil)
	g := sender{&user.DefaultInfo{Name: "x"}, t, &Authorizer{}}.guard()
	handler = WithRoot(filters.WithRequestInfo(g.authenticated(handler), newResolver()))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/spaces/a/api/v1/pods", nil))
	if len(served) != 1 || served[0].Key != "o/root/orrery.dev/somethings/x" {
		t.Errorf("rests on %+v", served)
	}
	restOn(t.Context(), table.Condition{Key: "nobody"})
	if all := ConditionsOf(t.Context()); len(all) != 0 {
		t.Errorf("without a request: %+v", all)
	}
}
