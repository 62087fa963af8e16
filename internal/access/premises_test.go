package access

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"

	"orrery.dev/orrery/internal/enroll"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// TestTokensArePremises: what a location's agent asked for rests on its token.
func TestTokensArePremises(t *testing.T) {
	tbl := table.New(table.Config{})
	token, enrolment, err := enroll.NewToken("edge", "u", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	tbl.Reset(7, []table.Update{
		{Key: key.Location("edge").Key(), Value: []byte(`{"metadata":{"name":"edge","uid":"u"}}`), CreateRev: 3, ModRev: 3},
		{Key: key.Enrolment("edge"), Value: enrolment, CreateRev: 4, ModRev: 5},
	})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	r = r.WithContext(withPremises(t.Context()))
	response, ok, err := bearertoken.New(locationTokens{tbl.Table}).AuthenticateRequest(r)
	if err != nil || !ok || len(response.User.GetExtra()) != 0 {
		t.Fatalf("%+v %v %v", response, ok, err)
	}
	premises := PremisesOf(r.Context())
	if len(premises) != 1 || premises[0].Key != key.Enrolment("edge") {
		t.Fatalf("rests on %+v", premises)
	}
	for _, c := range []struct {
		row  *table.Row
		want bool
	}{
		{&table.Row{Entry: table.NewEntry(premises[0].Key, enrolment, 4, 5)}, true},
		{&table.Row{Entry: table.NewEntry(premises[0].Key, enrolment, 4, 8)}, false},
		{&table.Row{Entry: table.NewEntry(premises[0].Key, enrolment, 9, 9)}, false},
		{nil, false},
	} {
		if got := premises[0].Holds(c.row); got != c.want {
			t.Errorf("holds with %+v: %v", c.row, got)
		}
	}
}

// TestPremisesOfDecisions: whoever decides about a request in apiserver's filters can
// note what they go by, and who serves it finds that; of others there is nothing.
func TestPremisesOfDecisions(t *testing.T) {
	var served []table.Premise
	handler := filters.WithAuthorization(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { served = PremisesOf(r.Context()) }),
		authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			restOn(ctx, table.Premise{Key: "o/root/orrery.dev/somethings/" + a.GetUser().GetName()})
			return authorizer.DecisionAllow, "", nil
		}), nil)
	g := somebody{&user.DefaultInfo{Name: "x"}, t, &Authorizer{}}.guard()
	handler = WithRoot(filters.WithRequestInfo(g.authenticated(handler), newResolver()))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/spaces/a/api/v1/pods", nil))
	if len(served) != 1 || served[0].Key != "o/root/orrery.dev/somethings/x" {
		t.Errorf("rests on %+v", served)
	}
	restOn(t.Context(), table.Premise{Key: "nobody"})
	if all := PremisesOf(t.Context()); len(all) != 0 {
		t.Errorf("without a request: %+v", all)
	}
}
