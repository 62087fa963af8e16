package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// definitions are the behaviours of CRDs and of what they define.
func definitions() []behaviour {
	return []behaviour{
		{name: "crd defaults", run: crdDefaults},
		{name: "crd defaults of old objects", run: crdDefaultsOfOldObjects},
		{name: "crd pruning", run: crdPruning},
		{name: "crd values", run: crdValues},
		{name: "crd rules", run: crdRules},
		{name: "crd old self", run: crdOldSelf},
		{name: "crd budgets", run: crdBudgets},
		{name: "crd spending", run: crdSpending},
		{name: "crd ratcheting", run: crdRatcheting},
		{name: "crd merging", run: crdMerging},
		{name: "crd scale", run: crdScale},
		{name: "crd versions", run: crdVersions},
		{name: "crd stored versions", run: crdStoredVersions},
		{name: "crd names", run: crdNames},
		{name: "crd changes", run: crdChanges},
		{name: "crd refusals", run: crdRefusals},
		{name: "crd removal", run: crdRemoval},
		{name: "crd apply", run: crdApply},
		{name: "crd status", run: crdStatus},
	}
}

const crdsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// kind is a resource that a behaviour defines: things of a group of its own.
type kind struct {
	*side
	group string
	// plural is that of the resource; its kind is Thing unless names say otherwise.
	plural string
}

func (s *side) kind() kind { return kind{side: s, group: s.ns + ".example.org", plural: "things"} }

// crdVersion is one version of a CRD; more is what stands beside the schema.
func crdVersion(name string, stored bool, schema, more string) string {
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":%s}%s}`, name, stored, schema, more)
}

// withSpec is a schema with that of the spec in it.
func withSpec(spec string) string {
	return `{"type":"object","properties":{"spec":` + spec + `,"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`
}

func (k kind) crd(versions ...string) string {
	return k.named(`"plural":"`+k.plural+`","kind":"Thing"`, versions...)
}

func (k kind) named(names string, versions ...string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%s.%s"},"spec":{"group":%q,"scope":"Namespaced","names":{%s},"versions":[%s]}}`,
		k.plural, k.group, k.group, names, strings.Join(versions, ","))
}

func (k kind) crdPath() string { return crdsPath + "/" + k.plural + "." + k.group }

func (k kind) path(segments ...string) string { return k.inGroup(k.group+"/v1", k.plural, segments...) }

// object is one thing; rest is what stands behind its metadata.
func (k kind) object(name, rest string) string {
	if rest != "" {
		rest = "," + rest
	}
	return fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Thing","metadata":{"name":%q}%s}`, k.group, name, rest)
}

// define creates the CRD and waits until it is served.
func (k kind) define(versions ...string) {
	k.quietly(http.MethodPost, crdsPath, k.crd(versions...))
	k.soon("served", func() bool {
		a, err := k.do(http.MethodGet, k.path(), "")
		return err == nil && a.code == http.StatusOK
	})
}

// redefine gives the CRD other versions and waits until a probe, a dry run of
// creating an object, is answered with a code.
func (k kind) redefine(probe string, code int, versions ...string) {
	k.quietly(http.MethodPatch, k.crdPath(), `{"spec":{"versions":[`+strings.Join(versions, ",")+`]}}`, "Content-Type: "+typeMerge)
	k.soon("redefined", func() bool {
		a, err := k.do(http.MethodPost, k.path()+"?dryRun=All&fieldValidation=Strict", probe)
		return err == nil && a.code == code
	})
}

// call sends a request and records the response, without the parts whose order or wording varies in
// Kubernetes itself.
func (k kind) call(method, path, body string, headers ...string) {
	a, err := k.do(method, path, body, headers...)
	k.say("%s", strings.Join(append([]string{method + " " + path}, headers...), " | "))
	if err != nil {
		k.say("  no answer")
		return
	}
	k.record(a)
}

func (k kind) record(a answer) {
	switch {
	case a.code == http.StatusNotFound && a.text("metadata", "name") == "":
		k.say("  404")
		return
	case a.text("kind") == "Table":
		k.rows(a)
		return
	}
	if causes, _ := a.field("details", "causes").([]any); len(causes) > 1 {
		slices.SortFunc(causes, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		a.object["message"], _, _ = strings.Cut(a.text("message"), "[")
	}
	if m, ok := a.field("metadata").(map[string]any); ok && m["continue"] == "" {
		delete(m, "continue") // lists of custom resources have an empty one in Kubernetes
	}
	k.log.answer(a)
}

// rows notes the first two columns, which are of the kind.
func (k kind) rows(a answer) {
	columns, _ := a.field("columnDefinitions").([]any)
	rows, _ := a.field("rows").([]any)
	k.log.value(columns[:min(2, len(columns))])
	for _, row := range rows {
		cells, _ := row.(map[string]any)["cells"].([]any)
		k.say("  %v", cells[:min(2, len(cells))])
	}
}

func (k kind) get(path string, headers ...string) { k.call(http.MethodGet, path, "", headers...) }

func (k kind) post(path, body string) { k.call(http.MethodPost, path, body) }

func (k kind) put(path, body string) { k.call(http.MethodPut, path, body) }

func (k kind) patch(contentType, path, body string) {
	k.call(http.MethodPatch, path, body, "Content-Type: "+contentType)
}

func (k kind) apply(path, body string) { k.patch(typeApply, path, body) }

func (k kind) delete(path string) { k.call(http.MethodDelete, path, "") }

// refusal notes an answer if it is a Status, else its code: a CRD reads in a
// space as it was written, without defaults.
func (k kind) refusal(a answer) {
	if a.text("kind") == "Status" {
		k.record(a)
		return
	}
	k.say("  %d %v", a.code, a.header.Values("Warning"))
}

// try does a request to CRDs and notes whether it was refused and why.
func (k kind) try(method, path, body string, headers ...string) answer {
	a, err := k.do(method, path, body, headers...)
	if err != nil {
		k.say("  %v", err)
	}
	k.refusal(a)
	return a
}

const merging, applying = "Content-Type: " + typeMerge, "Content-Type: " + typeApply

// soon waits for what Kubernetes does in its own time, and a space at once.
func (s *side) soon(what string, so func() bool) {
	deadline := time.After(timeout)
	for !so() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			s.t.Errorf("%s: never %s", s.url, what)
			return
		}
	}
}

// conditions records the status of a CRD, once it has the wanted conditions.
func (k kind) conditions(want ...string) {
	var a answer
	k.soon(strings.Join(want, " "), func() bool {
		a, _ = k.do(http.MethodGet, k.crdPath(), "")
		lines := conditionsOf(a)
		return !slices.ContainsFunc(want, func(c string) bool {
			return !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, c) })
		})
	})
	for _, line := range conditionsOf(a) {
		k.say("  %s", line)
	}
	k.log.value(map[string]any{"accepted": a.field("status", "acceptedNames"), "stored": a.field("status", "storedVersions"), "finalizers": a.field("metadata", "finalizers")})
}

// conditionsOf returns a line for each condition.
func conditionsOf(a answer) []string {
	conditions, _ := a.field("status", "conditions").([]any)
	var lines []string
	for _, c := range conditions {
		c := answer{object: c.(map[string]any)}
		if c.text("type") == "Terminating" { // spaces have other reasons and messages for the progress of a deletion
			c.object["reason"], c.object["message"] = "", ""
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %s", c.text("type"), c.text("status"), c.text("reason"), c.text("message")))
	}
	slices.Sort(lines)
	return lines
}
