package hub_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestCoreGroupHasTwoNames: by the core group's other name a Placement takes no more than
// its writer may read.
func TestCoreGroupHasTwoNames(t *testing.T) {
	r := hostile(t)
	r.grant("a", "vi", `{"subjects":[{"kind":"User","name":"vi"}],"roles":[{"name":"view"}],"rules":[{"apiGroups":["orrery.dev"],"resources":["placements","customizers"],"verbs":["*"]}]}`)
	vi, placements := r.as("vi"), written{"Placement", "placements"}
	for _, c := range []struct {
		test string
		may  bool
	}{
		{`"apiGroup":"core","resources":["secrets"]`, false},
		{`"apiGroup":"core"`, false},
		{`"apiGroup":"","resources":["secrets"]`, false},
		{`"apiGroup":"core","resources":["configmaps"]`, true},
	} {
		r.attempts(placements, vi, "a", `{"suspend":true}`, `{"downsync":[{`+c.test+`}]}`, c.may)
	}
	r.grant("a", "vi2", `{"subjects":[{"kind":"User","name":"vi"}],"rules":[{"apiGroups":["core"],"resources":["secrets"],"verbs":["*"]}]}`)
	r.attempts(placements, vi, "a", `{"suspend":true}`, `{"downsync":[{"apiGroup":"core","resources":["secrets"]}]}`, false)
	const rules = `"rules":[{"path":"$.data.x","release":true}]`
	r.attempts(written{"Customizer", "customizers"}, vi, "a", `{"match":[{"apiGroup":"x.example"}],`+rules+`}`, `{"match":[{"apiGroup":"core","resources":["secrets"]}],`+rules+`}`, false)
}

// TestTokensTellNothingOfSpaces: who asks for a token that is good for a space alone, and
// has no right there, is not told whether it is there.
func TestTokensTellNothingOfSpaces(t *testing.T) {
	r := hostile(t)
	r.grant("a", "jane", `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"admin"}]}`)
	jane := r.as("jane")
	for _, spec := range []string{`{"user":"jane","space":"S"}`, `{"user":"jane","space":"S","request":"x"}`, `{"space":"S","role":"view"}`, `{"user":"jane","space":"S","role":"view"}`, `{"space":"S"}`} {
		code, _, body := jane.mint(strings.ReplaceAll(spec, `"S"`, `"b"`))
		other, _, text := jane.mint(strings.ReplaceAll(spec, `"S"`, `"none"`))
		if code != http.StatusForbidden || other != code || strings.ReplaceAll(body, `\"b\"`, `\"none\"`) != text {
			t.Errorf("%s: %d %s, and where there is none: %d %s", spec, code, body, other, text)
		}
	}
	if code, _, body := jane.mint(`{"user":"jane","space":"a"}`); code != http.StatusOK {
		t.Errorf("where jane has a right: %d %s", code, body)
	}
}
