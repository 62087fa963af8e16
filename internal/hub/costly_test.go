package hub_test

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// message is a field of protobuf with bytes.
func message(number uint64, content ...[]byte) []byte {
	inner := slices.Concat(content...)
	return slices.Concat(binary.AppendUvarint(binary.AppendUvarint(nil, number<<3|2), uint64(len(inner))), inner)
}

// deepProtobuf is a CRD with a schema of many levels in 3 MB, as protobuf.
func deepProtobuf() string {
	schema := make([]byte, 3<<20-200)
	offset := len(schema)
	for offset > 20 { // "not" in "not", from the end
		header := binary.AppendUvarint(binary.AppendUvarint(nil, 28<<3|2), uint64(len(schema)-offset))
		offset -= copy(schema[offset-len(header):], header)
	}
	crd := message(2, message(7, message(1, []byte("v1")), message(4, message(1, schema[offset:]))))
	meta := message(1, message(1, []byte("apiextensions.k8s.io/v1")), message(2, []byte("CustomResourceDefinition")))
	return "k8s\x00" + string(meta) + string(message(2, crd))
}

// TestCostlyWrites: what is small and would cost the hub much is refused before it does.
// It costs what others of its size do, and the memory of the hub has room for it.
func TestCostlyWrites(t *testing.T) {
	r := hostile(t)
	r.grant("a", "jane", `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"admin"}]}`)
	jane := r.as("jane")
	const crds, opens, config = "/spaces/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/spaces/a/apis/example.org/v1/namespaces/default/opens", "/spaces/a/api/v1/namespaces/default/configmaps/a-x"
	nested := func(levels int, begin, inner, end string) string {
		return strings.Repeat(begin, levels) + inner + strings.Repeat(end, levels)
	}
	many := func(n int, each func(i int) string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = each(i)
		}
		return strings.Join(all, ",")
	}
	open := func(name, value string) string {
		return fmt.Sprintf(`{"apiVersion":"example.org/v1","kind":"Opens","metadata":{"name":%q},"a":%s}`, name, value)
	}
	lists := func(levels int) string { return nested(levels, `{"type":"array","items":`, `{"type":"string"}`, `}`) }
	objects := func(levels int) string {
		return nested(levels, `{"type":"object","properties":{"a":`, `{"type":"string"}`, `}}`)
	}
	patterns := func(n int) string {
		return `{"type":"object","properties":{` + many(n, func(i int) string {
			return fmt.Sprintf(`"p%d":{"type":"string","pattern":"^a{1000}b{1000}%d$"}`, i, i)
		}) + `}}`
	}
	rules := func(n int) string {
		return `{"type":"object","properties":{"a":{"type":"string"}},"x-kubernetes-validations":[` +
			many(n, func(i int) string { return fmt.Sprintf(`{"rule":"self.a != 'x%d'"}`, i) }) + `]}`
	}
	const jsonPatch, mergePatch, applyURL = "application/json-patch+json", "application/merge-patch+json", "?fieldManager=x"
	deepPatch := `[{"op":"add","path":"/a","value":{}}` // each operation goes on where the one before it ended
	for i, path := 0, "/a"; i < 60; i++ {
		deepPatch += fmt.Sprintf(`,{"op":"add","path":"%s/b","value":%s}`, path, nested(100, `{"b":`, "{}", "}"))
		path += strings.Repeat("/b", 101)
	}
	for _, c := range []struct {
		what, request, body, kind string
		code                      int
	}{
		{"an open schema", "POST " + crds, definitionOf(t, "opens", `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`), "", http.StatusCreated},
		{"as deep as can be", "POST " + crds, definitionOf(t, "deeps", `{"type":"object","properties":{"a":`+lists(110)+`}}`), "", http.StatusCreated},
		{"lists in lists", "POST " + crds, definitionOf(t, "lists", lists(9000)), "", http.StatusBadRequest},
		{"objects in objects", "POST " + crds, definitionOf(t, "objects", objects(4500)), "", http.StatusBadRequest},
		{"… as YAML", "POST " + crds, "# " + "\n" + definitionOf(t, "lists", lists(9000)), "application/yaml", http.StatusBadRequest},
		{"… as protobuf", "POST " + crds, deepProtobuf(), "application/vnd.kubernetes.protobuf", http.StatusBadRequest},
		{"… applied", "PATCH " + crds + "/lists.example.org" + applyURL, definitionOf(t, "lists", lists(9000)), applyYAML, http.StatusBadRequest},
		{"… as a merge patch", "PATCH " + crds + "/opens.example.org", definitionOf(t, "opens", lists(9000)), mergePatch, http.StatusBadRequest},
		{"… as a strategic merge patch", "PATCH " + crds + "/opens.example.org", definitionOf(t, "opens", lists(9000)), "application/strategic-merge-patch+json", http.StatusBadRequest},
		{"… as a JSON Patch", "PATCH " + crds + "/opens.example.org", `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/items","value":` + lists(9000) + `}]`, jsonPatch, http.StatusBadRequest},
		{"a deep object", "POST " + opens, open("deep", nested(9000, `{"a":`, "1", "}")), "", http.StatusBadRequest},
		{"… applied", "PATCH " + opens + "/deep" + applyURL, open("deep", nested(9000, `{"a":`, "1", "}")), applyYAML, http.StatusBadRequest},
		{"… applied as YAML", "PATCH " + opens + "/deep" + applyURL, "apiVersion: example.org/v1\nkind: Opens\nmetadata: {name: deep}\na:\n  " + strings.Repeat("- ", 9000) + "1\n", applyYAML, http.StatusBadRequest},
		{"brackets in texts", "POST " + opens, open("texts", `"`+strings.Repeat(`[{\"`, 1000)+`"`), "", http.StatusCreated},
		{"… in YAML", "PATCH " + opens + "/yaml" + applyURL, "apiVersion: example.org/v1\nkind: Opens\nmetadata: {name: yaml}\na: |\n  don't " + strings.Repeat("[", 1000) + "\n", applyYAML, http.StatusCreated},
		{"step by step", "PATCH " + opens + "/texts", deepPatch + "]", jsonPatch, http.StatusBadRequest},
		{"two halves", "PATCH " + opens + "/texts", `[{"op":"add","path":"/a","value":` + nested(100, `{"b":`, "1", "}") + `},{"op":"add","path":"/a` + strings.Repeat("/b", 100) + `","value":` + nested(100, `{"b":`, "1", "}") + `}]`, jsonPatch, http.StatusUnprocessableEntity},
		{"copies of copies", "PATCH " + config, `[{"op":"add","path":"/data","value":{"a":"` + strings.Repeat("x", 1000) + `"}},` +
			many(17, func(i int) string { return fmt.Sprintf(`{"op":"copy","from":"/data","path":"/data/x%d"}`, i) }) + `]`, jsonPatch, http.StatusUnprocessableEntity},
		{"some rules", "POST " + crds, definitionOf(t, "ruleds", rules(300)), "", http.StatusCreated},
		{"very many rules", "POST " + crds, definitionOf(t, "verys", rules(9000)), "", http.StatusUnprocessableEntity},
		{"… put later", "PATCH " + crds + "/ruleds.example.org", definitionOf(t, "ruleds", rules(9000)), mergePatch, http.StatusUnprocessableEntity},
		{"some patterns", "POST " + crds, definitionOf(t, "patterneds", patterns(50)), "", http.StatusCreated},
		{"very many patterns", "POST " + crds, definitionOf(t, "manies", patterns(5000)), "", http.StatusUnprocessableEntity},
		{"a selector of some terms", "GET " + strings.TrimSuffix(config, "/a-x") + "?labelSelector=" + strings.ReplaceAll(many(500, func(i int) string { return fmt.Sprintf("k%d!=v", i) }), ",", "%2C"), "", "", http.StatusOK},
		{"… of very many", "GET " + strings.TrimSuffix(config, "/a-x") + "?labelSelector=" + strings.ReplaceAll(many(20000, func(i int) string { return fmt.Sprintf("k%d!=v", i) }), ",", "%2C"), "", "", http.StatusBadRequest},
		{"… watched", "GET " + strings.TrimSuffix(config, "/a-x") + "?watch=1&labelSelector=" + strings.ReplaceAll(many(20000, func(i int) string { return fmt.Sprintf("k%d!=v", i) }), ",", "%2C"), "", "", http.StatusBadRequest},
	} {
		var header []string
		if c.kind != "" {
			header = []string{contentType, c.kind}
		}
		began := time.Now()
		code, body := jane.send(c.request, c.body, header...)
		t.Logf("%s: %d bytes, %d in %v", c.what, len(c.body), code, time.Since(began))
		if code != c.code {
			t.Errorf("%s: %d %.300s", c.what, code, body)
		}
		if most := 4*len(c.body) + 1<<20; len(body) > most {
			t.Errorf("%s: is answered with %d bytes", c.what, len(body))
		}
	}
}
