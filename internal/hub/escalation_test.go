package hub_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// written describes how an object of Orrery is written with a spec, by each verb.
type written struct {
	kind, resource string
}

// write tries to have an object of a name be as a spec says: by a request that makes it,
// or, if it is there, by one that changes it.
func (w written) write(c client, s key.Space, how, name, spec string) (int, string) {
	object := fmt.Sprintf(`{"apiVersion":"orrery.dev/v1alpha1","kind":%q,"metadata":{"name":%q},"spec":%s}`, w.kind, name, spec)
	all := orreryOf(s, w.resource)
	one := all + "/" + name
	switch how {
	case "create":
		return c.send("POST "+all, object)
	case "apply":
		return c.send("PATCH "+one+"?fieldManager=t&force=true", object, contentType, applyYAML)
	case "put":
		for { // until the hub does not write its status meanwhile
			_, now := c.send("GET "+one, "")
			version := between(now, `"resourceVersion":"`, `"`)
			code, body := c.send("PUT "+one, strings.Replace(object, `"metadata":{`, fmt.Sprintf(`"metadata":{"resourceVersion":%q,`, version), 1))
			if code != http.StatusConflict {
				return code, body
			}
		}
	case "merge":
		return c.send("PATCH "+one, `{"spec":`+spec+`}`, contentType, mergePatch)
	case "json":
		return c.send("PATCH "+one, `[{"op":"replace","path":"/spec","value":`+spec+`}]`, contentType, jsonPatch)
	}
	panic(how)
}

func between(text, begin, end string) string {
	_, text, _ = strings.Cut(text, begin)
	text, _, _ = strings.Cut(text, end)
	return text
}

var (
	making   = []string{"create", "apply"}
	changing = []string{"apply", "put", "merge", "json"}
)

// attempts tries a spec by each verb, on a new object and on one that is there, and
// expects it to be refused as forbidden, or taken.
func (r *running) attempts(w written, c client, s key.Space, harmless, spec string, may bool) {
	r.t.Helper()
	root := r.as("admin", "system:masters")
	check := func(how string, code int, body string) {
		r.t.Helper()
		if ok := code == http.StatusOK || code == http.StatusCreated; ok != may || !ok && code != http.StatusForbidden {
			r.t.Errorf("%s of a %s %s in %s: %d %s", how, w.kind, spec, s, code, body)
		}
	}
	for _, how := range making {
		code, body := w.write(c, s, how, "new", spec)
		check(how, code, body)
		root.send("DELETE "+orreryOf(s, w.resource)+"/new", "")
	}
	for _, how := range changing {
		if code, body := w.write(root, s, "create", "old", harmless); code != http.StatusCreated {
			r.t.Fatalf("%d %s", code, body)
		}
		code, body := w.write(c, s, how, "old", spec)
		check(how+" of one that is there", code, body)
		root.send("DELETE "+orreryOf(s, w.resource)+"/old", "")
	}
}

// TestEscalation: a user can't grant rights that the user does not have, with any verb.
func TestEscalation(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("a")
	grants := written{"Grant", "grants"}
	const writes = `{"apiGroups":["orrery.dev"],"resources":["grants"],"verbs":["get","create","update","patch","delete"]}`
	const pods = `{"apiGroups":[""],"resources":["pods"],"verbs":["get","list"]}`
	r.grant("a", "jane", `{"subjects":[{"kind":"User","name":"jane"}],"rules":[`+writes+`,`+pods+`,{"apiGroups":["apps"],"resources":["*"],"verbs":["*"],"namespaces":["m"]}]}`)
	to := func(what string) string { return `{"subjects":[{"kind":"User","name":"joe"}],` + what + `}` }
	rule := func(group, resource, verb, more string) string {
		return to(fmt.Sprintf(`"rules":[{"apiGroups":[%q],"resources":[%q],"verbs":[%q]%s}]`, group, resource, verb, more))
	}
	harmless := to(`"rules":[` + pods + `]`)
	jane := r.as("jane")
	for _, c := range []struct {
		spec string
		may  bool
	}{
		{harmless, true},
		{rule("", "pods", "get", `,"resourceNames":["p"]`), true},
		{rule("", "pods", "get", `,"namespaces":["n"]`), true},
		{rule("apps", "deployments", "delete", `,"namespaces":["m"]`), true},
		{rule("apps", "deployments", "delete", ""), false},
		{rule("apps", "deployments", "delete", `,"namespaces":["m","n"]`), false},
		{rule("", "pods", "watch", ""), false},
		{rule("", "*", "get", ""), false},
		{rule("*", "pods", "get", ""), false},
		{rule("", "pods/log", "get", ""), false},
		{rule("", "secrets", "get", ""), false},
		{rule("orrery.dev", "grants", "escalate", ""), false},
		{rule("orrery.dev", "grants", "*", ""), false},
		{rule("orrery.dev", "roles", "bind", ""), false},
		{to(`"roles":[{"name":"view"}]`), false},
		{to(`"roles":[{"name":"admin"}]`), false},
		{to(`"roles":[{"name":"view","namespaces":["m"]}]`), false},
		{to(`"rules":[` + pods + `],"roles":[{"name":"view"}]`), false},
	} {
		r.attempts(grants, jane, "a", harmless, c.spec, c.may)
	}
	// Their own Grant does not widen either, and what is no change of the spec is none.
	if code, body := grants.write(jane, "a", "merge", "jane", `{"roles":[{"name":"admin"}]}`); code != http.StatusForbidden {
		t.Errorf("a Grant that widens itself: %d %s", code, body)
	}
	r.grant("a", "other", to(`"roles":[{"name":"admin"}]`))
	if code, body := jane.send("PATCH "+grantsOf("a")+"/other", `{"metadata":{"labels":{"x":"y"}}}`, contentType, mergePatch); code != http.StatusOK {
		t.Errorf("a label: %d %s", code, body)
	}
	if code, body := grants.write(jane, "a", "merge", "other", `{"subjects":[{"kind":"User","name":"jane"}]}`); code != http.StatusForbidden {
		t.Errorf("another subject for what jane does not hold: %d %s", code, body)
	}
	if code, body := jane.send("POST "+grantsOf("a")+"?dryRun=All", `{"apiVersion":"orrery.dev/v1alpha1","kind":"Grant","metadata":{"generateName":"x"},"spec":`+to(`"roles":[{"name":"admin"}]`)+`}`); code != http.StatusForbidden {
		t.Errorf("a dry run without a name: %d %s", code, body)
	}

	// By roles, by bind, by escalate.
	r.grant("a", "roles", `{"subjects":[{"kind":"User","name":"ed"}],"roles":[{"name":"edit"}],"rules":[`+writes+`]}`)
	ed := r.as("ed")
	for _, c := range []struct {
		spec string
		may  bool
	}{
		{to(`"roles":[{"name":"view"}]`), true},
		{to(`"roles":[{"name":"edit","namespaces":["m"]}]`), true},
		{to(`"roles":[{"name":"admin"}]`), false},
		{rule("apps", "deployments", "create", ""), true},
		{rule("", "secrets", "list", ""), true},
		{rule("", "namespaces", "delete", ""), true},
		{rule("rbac.authorization.k8s.io", "roles", "create", `,"namespaces":["m"]`), false},
		{rule("apiextensions.k8s.io", "customresourcedefinitions", "create", ""), false},
		{rule("example.org", "unknown", "create", ""), false}, // what there may be, and may be in no namespace
		{rule("", "pods", "*", ""), false},
		{rule("", "*", "get", ""), true},
		{rule("*", "*", "get", ""), false},
		{rule("orrery.dev", "placements", "create", ""), false},
	} {
		r.attempts(grants, ed, "a", harmless, c.spec, c.may)
	}
	r.grant("a", "bind", `{"subjects":[{"kind":"User","name":"ed"}],"rules":[{"apiGroups":["orrery.dev"],"resources":["roles"],"resourceNames":["admin"],"verbs":["bind"]}]}`)
	r.attempts(grants, ed, "a", harmless, to(`"roles":[{"name":"admin"}]`), true)
	r.attempts(grants, ed, "a", harmless, rule("", "pods", "*", ""), false)
	r.grant("a", "bind", `{"subjects":[{"kind":"User","name":"ed"}],"rules":[{"apiGroups":["orrery.dev"],"resources":["grants"],"verbs":["escalate"]}]}`)
	r.attempts(grants, ed, "a", harmless, rule("*", "*", "*", ""), true)
}

// TestEscalationFromRoot: a user can't grant from root a right that the user does not have in all spaces.
// An admin of root is not an admin of other spaces.
func TestEscalationFromRoot(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("a")
	grants := written{"Grant", "grants"}
	to := func(what string) string { return `{"subjects":[{"kind":"User","name":"joe"}],` + what + `}` }
	const view = `"roles":[{"name":"view"}]`
	harmless := to(view)
	r.grant(key.Root, "rita", `{"subjects":[{"kind":"User","name":"rita"}],"roles":[{"name":"admin"}]}`)
	r.grant("a", "rita", `{"subjects":[{"kind":"User","name":"rita"}],"roles":[{"name":"admin"}]}`)
	rita := r.as("rita")
	for _, c := range []struct {
		spec string
		may  bool
	}{
		{harmless, true},
		{to(`"roles":[{"name":"admin"}]`), true},
		{to(view + `,"spaces":{"names":["a"]}`), false}, // though rita is admin there now
		{to(view + `,"spaces":{"selector":{}}`), false},
		{to(view + `,"spaces":{"selector":{"matchLabels":{"x":"y"}}}`), false},
		{to(`"rules":[{"nonResourceURLs":["/metrics"],"verbs":["get"]}]`), false},
		{to(`"rules":[{"nonResourceURLs":["*"],"verbs":["*"]}]`), false},
		{to(`"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]`), false},
		{to(`"rules":[{"apiGroups":[""],"resources":["users","groups"],"verbs":["impersonate"]}]`), false},
		{to(`"rules":[{"apiGroups":["orrery.dev"],"resources":["grants"],"verbs":["escalate"]}]`), false},
		{to(`"rules":[{"apiGroups":["orrery.dev"],"resources":["roles"],"verbs":["bind"]}]`), false},
		{to(`"rules":[{"apiGroups":["orrery.dev"],"resources":["locations/token"],"verbs":["create"]}]`), true},
	} {
		r.attempts(grants, rita, key.Root, harmless, c.spec, c.may)
	}
	r.grant(key.Root, "all", `{"subjects":[{"kind":"User","name":"rita"}],"roles":[{"name":"edit"}],"spaces":{"selector":{}}}`)
	r.attempts(grants, rita, key.Root, harmless, to(view+`,"spaces":{"names":["a","b"]}`), true)
	r.attempts(grants, rita, key.Root, harmless, to(`"roles":[{"name":"admin"}],"spaces":{"names":["a"]}`), false)
	r.attempts(grants, rita, key.Root, harmless, to(`"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}],"spaces":{"names":["a"]}`), true)
	// What only root can say can't be written elsewhere.
	for _, spec := range []string{to(view + `,"spaces":{"names":["b"]}`), to(`"rules":[{"nonResourceURLs":["/x"],"verbs":["get"]}]`)} {
		if code, body := grants.write(r.as("admin", "system:masters"), "a", "create", "x", spec); code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", spec, code, body)
		}
	}
	for _, names := range []string{`["root"]`, `["*"]`, `["a/b"]`} {
		if code, body := grants.write(r.as("admin", "system:masters"), key.Root, "create", "x", to(view+`,"spaces":{"names":`+names+`}`)); code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", names, code, body)
		}
	}
}

// TestDeputies: a user can't make the hub read or change objects that the user may not, with any verb.
func TestDeputies(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("a")
	placements, customizers := written{"Placement", "placements"}, written{"Customizer", "customizers"}
	const writes = `{"apiGroups":["orrery.dev"],"resources":["placements","customizers"],"verbs":["get","create","update","patch"]}`
	r.grant("a", "ed", `{"subjects":[{"kind":"User","name":"ed"}],"roles":[{"name":"edit"}]}`)
	ed := r.as("ed")
	place := func(test string) string { return `{"locations":[{"selector":{}}],"downsync":[` + test + `]}` }
	harmless := place(`{"apiGroup":"apps","resources":["deployments"]}`)
	r.attempts(placements, ed, "a", harmless, harmless, false) // edit writes no Placements

	r.grant("a", "jane", `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"view"}],"rules":[`+writes+`,
		{"apiGroups":[""],"resources":["secrets"],"verbs":["get","list","watch"],"namespaces":["m"]},
		{"apiGroups":["apps"],"resources":["deployments"],"verbs":["update"]}]}`)
	jane := r.as("jane")
	for _, c := range []struct {
		test string
		may  bool
	}{
		{`{"apiGroup":"apps","resources":["deployments","statefulsets"]}`, true},
		{`{"apiGroup":"apps"}`, true},
		{`{"apiGroup":"","resources":["configmaps"],"labelSelectors":[{"matchLabels":{"a":"b"}}]}`, true},
		{`{"apiGroup":"","resources":["secrets"]}`, false},
		{`{"apiGroup":"","resources":["secrets"],"namespaces":["m"]}`, true},
		{`{"apiGroup":"","resources":["secrets"],"namespaces":["m","n"]}`, false},
		{`{"apiGroup":"","resources":["secrets"],"namespaceSelectors":[{"matchLabels":{"kubernetes.io/metadata.name":"m"}}]}`, false},
		{`{"apiGroup":""}`, false},
		{`{"apiGroup":"*","resources":["configmaps"]}`, true},
		{`{"apiGroup":"*","resources":["secrets"],"namespaces":["m"]}`, false},
		{`{"resources":["*"]}`, false},
		{`{"names":["x"]}`, false},
		{`{"labelSelectors":[{}]}`, false},
	} {
		r.attempts(placements, jane, "a", harmless, place(c.test), c.may)
	}
	// Upsynced objects are read with the rights of the agent, which needs a separate right.
	r.grant("a", "una", `{"subjects":[{"kind":"User","name":"una"}],"roles":[{"name":"view"}],"rules":[`+writes+`,
		{"apiGroups":[""],"resources":["pods","secrets"],"verbs":["upsync"]},
		{"apiGroups":["example.com"],"resources":["widgets"],"verbs":["get","list","watch","upsync"],"namespaces":["m"]}]}`)
	see := func(upsync string) string { return `{"locations":[{"selector":{}}],"upsync":[` + upsync + `]}` }
	for _, c := range []struct {
		who, spec string
		may       bool
	}{
		{"jane", see(`{"resources":["pods"]}`), false},
		{"una", see(`{"resources":["pods"]}`), true},
		{"una", see(`{"resources":["secrets"]}`), false}, // which view does not read
		{"una", see(`{"apiGroup":"*","resources":["pods"]}`), false},
		{"una", see(`{"apiGroup":"example.com","resources":["widgets"]}`), false},
		{"una", see(`{"apiGroup":"example.com","resources":["widgets"],"namespaces":["m"]}`), true},
		{"una", place(`{"apiGroup":"apps","resources":["deployments"],"associated":[{"resources":["pods"]}]}`), true},
		{"una", place(`{"apiGroup":"apps","resources":["deployments"],"associated":[{"resources":["pods","secrets"]}]}`), false},
		{"jane", place(`{"apiGroup":"apps","resources":["deployments"],"associated":[{"resources":["pods"]}]}`), false},
	} {
		r.attempts(placements, r.as(c.who), "a", harmless, c.spec, c.may)
	}
	customize := func(test string) string {
		return `{"match":[` + test + `],"rules":[{"path":"$.spec.replicas","release":true}]}`
	}
	for test, may := range map[string]bool{
		`{"apiGroup":"apps","resources":["deployments"]}`:  true,
		`{"apiGroup":"apps","resources":["statefulsets"]}`: false, // which jane only reads
		`{"apiGroup":"apps"}`:                              false,
		`{"names":["x"]}`:                                  false,
	} {
		r.attempts(customizers, jane, "a", customize(`{"apiGroup":"apps","resources":["deployments"],"names":["web"]}`), customize(test), may)
	}
	// The hub reads ConfigMaps for a Customizer, as far as its writer may.
	r.grant("a", "kim", `{"subjects":[{"kind":"User","name":"kim"}],"rules":[`+writes+`,
		{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"],"resourceNames":["sites"],"namespaces":["m"]},
		{"apiGroups":["apps"],"resources":["deployments"],"verbs":["get","list","watch","update"]}]}`)
	using := func(namespace, name string) string {
		return `{"match":[{"apiGroup":"apps","resources":["deployments"]}],"data":[{"name":"d","configMap":{"namespace":"` + namespace + `","name":"` + name + `"}}],` +
			`"rules":[{"path":"$.spec.replicas","expression":"size(data.d)"}]}`
	}
	for _, grant := range [][2]string{{"m", "sites"}, {"m", "other"}, {"n", "sites"}} {
		r.attempts(customizers, r.as("kim"), "a", customize(`{"apiGroup":"apps","resources":["deployments"]}`), using(grant[0], grant[1]), grant == [2]string{"m", "sites"})
	}
	// Readers of a Summary see what its writer may read, including reports of locations.
	const summarizes = `{"apiGroups":["orrery.dev"],"resources":["summaries"],"verbs":["get","create","update","patch"]}`
	r.grant("a", "sam", `{"subjects":[{"kind":"User","name":"sam"},{"kind":"User","name":"rep"}],"roles":[{"name":"view"}],"rules":[`+summarizes+`]}`)
	r.grant("a", "rep", `{"subjects":[{"kind":"User","name":"rep"}],"rules":[{"apiGroups":["orrery.dev"],"resources":["reports/content"],"verbs":["get","list","watch"]}]}`)
	summaries := written{"Summary", "summaries"}
	sums := func(from, test string) string {
		return `{"from":"` + from + `","match":[` + test + `],"combine":[{"name":"n","type":"COUNT"}]}`
	}
	const deployments, secrets = `{"apiGroup":"apps","resources":["deployments"]}`, `{"apiGroup":"","resources":["secrets"]}`
	for _, c := range []struct {
		who, spec string
		may       bool
	}{
		{"sam", sums("Downsynced", deployments), true},
		{"sam", sums("Downsynced", secrets), false},
		{"sam", sums("Downsynced", `{"names":["x"]}`), false},
		{"sam", sums("Upsynced", deployments), false},
		{"sam", sums("Associated", deployments), false},
		{"rep", sums("Upsynced", deployments), true},
		{"rep", sums("Associated", deployments), true},
		{"rep", sums("Upsynced", secrets), false},
		{"ed", sums("Downsynced", deployments), false}, // edit writes no Summaries
	} {
		r.attempts(summaries, r.as(c.who), "a", sums("Downsynced", `{"apiGroup":"apps","resources":["deployments"],"names":["web"]}`), c.spec, c.may)
	}
	// Nothing else of one that is there is bound to what it reads.
	r.as("admin", "system:masters").send("POST "+orreryOf("a", "placements"), `{"apiVersion":"orrery.dev/v1alpha1","kind":"Placement","metadata":{"name":"p"},"spec":`+place(`{"resources":["*"]}`)+`}`)
	if code, body := jane.send("PATCH "+orreryOf("a", "placements/p"), `{"metadata":{"annotations":{"orrery.dev/confirm-prune":"x"}}}`, contentType, mergePatch); code != http.StatusOK {
		t.Errorf("an annotation: %d %s", code, body)
	}
	if code, body := placements.write(jane, "a", "merge", "p", `{"locations":[{"names":["mine"]}]}`); code != http.StatusForbidden {
		t.Errorf("another location for what jane may not read: %d %s", code, body)
	}
}

// TestDeputiesOfRoot checks that writing a Placement that selects spaces takes the right to read
// the matching objects in all present and future spaces. Rights in root alone do not suffice. Such
// Placements can be written only in root.
func TestDeputiesOfRoot(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("a")
	placements := written{"Placement", "placements"}
	const writes = `{"apiGroups":["orrery.dev"],"resources":["placements"],"verbs":["get","create","update","patch"]}`
	reads := func(resource string) string {
		return `{"apiGroups":[""],"resources":["` + resource + `"],"verbs":["get","list","watch"]}`
	}
	grant := func(s key.Space, who, reaches, rules string) {
		r.grant(s, who, `{"subjects":[{"kind":"User","name":"`+who+`"}],`+reaches+`"rules":[`+rules+`]}`)
	}
	place := func(spaces, resource string) string {
		return `{` + spaces + `"locations":[{"selector":{}}],"downsync":[{"apiGroup":"","resources":["` + resource + `"]}]}`
	}
	named, all := `"spaces":{"names":["a"]},`, `"spaces":{"selector":{}},`
	for _, who := range []string{"inroot", "ina", "some", "everywhere"} {
		grant(key.Root, who, "", writes+","+reads("configmaps"))
	}
	grant("a", "ina", "", reads("configmaps")+","+reads("secrets"))
	for who, selector := range seeds.Ordered(map[string]string{"some": `{"matchLabels":{"team":"x"}}`, "everywhere": `{}`}) {
		r.grant(key.Root, who+"-reaching", `{"subjects":[{"kind":"User","name":"`+who+`"}],"spaces":{"selector":`+selector+`},"rules":[`+reads("configmaps")+`]}`)
	}
	for _, c := range []struct {
		who, spec string
		may       bool
	}{
		{"inroot", place(named, "configmaps"), false},
		{"inroot", place(all, "configmaps"), false},
		{"ina", place(named, "configmaps"), false}, // a may be another's tomorrow
		{"some", place(`"spaces":{"selector":{"matchLabels":{"team":"x"}}},`, "configmaps"), false},
		{"everywhere", place(all, "configmaps"), true},
		{"everywhere", place(named, "configmaps"), true},
		{"everywhere", place(named, "secrets"), false},
	} {
		r.attempts(placements, r.as(c.who), key.Root, place("", "configmaps"), c.spec, c.may)
	}
	for spec, message := range map[string]string{
		place(all, "configmaps"): "only Placements in the space root reach other spaces",
	} {
		body := `{"apiVersion":"orrery.dev/v1alpha1","kind":"Placement","metadata":{"name":"p"},"spec":` + spec + `}`
		if code, response := r.as("admin", "system:masters").send("POST "+orreryOf("a", "placements"), body); code != http.StatusUnprocessableEntity || !strings.Contains(response, message) {
			t.Errorf("in a space: %d %s", code, response)
		}
	}
	body := `{"apiVersion":"orrery.dev/v1alpha1","kind":"Placement","metadata":{"name":"p"},"spec":` + place(`"spaces":{"names":["root"]},`, "configmaps") + `}`
	if code, response := r.as("admin", "system:masters").send("POST "+orreryOf(key.Root, "placements"), body); code != http.StatusUnprocessableEntity || !strings.Contains(response, "spec.spaces.names[0]") {
		t.Errorf("of root: %d %s", code, response)
	}
}
