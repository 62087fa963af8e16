package auth

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// bind returns the error for a user that writes an APIBinding of space c with a spec; empty if it
// is allowed.
func (w *world) bind(who user.Info, spec, old string) string {
	w.t.Helper()
	return w.bindLabeled(who, [2]string{spec}, [2]string{old})
}

// bindLabeled is bind for specs and labels.
func (w *world) bindLabeled(who user.Info, now, old [2]string) string {
	w.t.Helper()
	decode := func(settings [2]string) runtime.Object {
		if settings[0] == "" {
			return nil
		}
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(`{metadata: {name: b, labels: {`+settings[1]+`}}, spec: `+settings[0]+`}`), &u.Object); err != nil {
			w.t.Fatal(err)
		}
		return &u
	}
	operation := admission.Create
	if old[0] != "" {
		operation = admission.Update
	}
	gvk := schema.GroupVersionKind{Group: v1alpha1.Group, Version: "v1alpha1", Kind: "APIBinding"}
	a := admission.NewAttributesRecord(decode(now), decode(old), gvk, "", "b", gvk.GroupVersion().WithResource("apibindings"), "", operation, nil, false, who)
	err := admitter{w.decides}.Validate(context.WithValue(w.t.Context(), rootKey{}, route.Space("c")), a, nil)
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestWhoMayBind: binding needs the right to bind in the provider's space. The error is the same
// for an export that does not exist.
func TestWhoMayBind(t *testing.T) {
	w := newWorld(t)
	jane := named("jane")
	const here, other, rooted = `{export: {space: p, name: e}}`, `{export: {space: q, name: e}}`, `{export: {space: root, name: e}}`
	w.grant("c", "consumer", `{subjects: [{kind: User, name: jane}], roles: [{name: admin}]}`)
	want := `user "jane" needs rights that they do not hold: bind apiexports.orrery.dev ["e"] in space "p"`
	if refusal := w.bind(jane, here, ""); !strings.HasSuffix(refusal, want) {
		t.Errorf("without the right: %s", refusal)
	}
	w.put(objectIn("p", key.APIExports, "e"), []byte(`{"metadata":{"name":"e"}}`))
	if refusal := w.bind(jane, here, ""); !strings.HasSuffix(refusal, want) {
		t.Errorf("without the right to one that is there: %s", refusal)
	}
	if refusal := w.bind(jane, here, here); refusal != "" {
		t.Errorf("what is bound stays: %s", refusal)
	}
	if refusal := w.bind(jane, other, here); refusal == "" {
		t.Error("another export can be had by an update")
	}
	if refusal := w.bind(jane, `{export: {space: "*", name: e}}`, ""); refusal == "" {
		t.Error("all spaces at once are a provider")
	}
	for _, c := range []struct {
		in   key.Space
		spec string
		yes  []string
		no   []string
	}{
		{"p", `rules: [{apiGroups: [orrery.dev], resources: [apiexports], resourceNames: [e], verbs: [bind]}]`, []string{here}, []string{other, rooted, `{export: {space: p, name: f}}`}},
		{"p", `rules: [{apiGroups: [orrery.dev], resources: [apiexports], verbs: [bind]}]`, []string{here, `{export: {space: p, name: f}}`}, []string{other}},
		{"p", `rules: [{apiGroups: [orrery.dev], resources: [apiexports/content], verbs: ["*"]}]`, nil, []string{here}},
		{"p", `rules: [{apiGroups: [orrery.dev], resources: [apiexports], verbs: [get, create, update]}]`, nil, []string{here}},
		{"p", `roles: [{name: edit}]`, nil, []string{here}},
		{"p", `roles: [{name: admin}]`, []string{here}, []string{other}},
		{"root", `roles: [{name: admin}]`, []string{rooted}, []string{here}},
		{"root", `spaces: {names: [p]}, rules: [{apiGroups: [orrery.dev], resources: [apiexports], verbs: [bind]}]`, []string{here}, []string{other, rooted}},
	} {
		w.grant(c.in, "g", `{subjects: [{kind: User, name: jane}], `+c.spec+`}`)
		for _, spec := range c.yes {
			if refusal := w.bind(jane, spec, ""); refusal != "" {
				t.Errorf("%s in %s: %s: %s", c.spec, c.in, spec, refusal)
			}
		}
		for _, spec := range c.no {
			if refusal := w.bind(jane, spec, ""); refusal == "" {
				t.Errorf("%s in %s: %s is let in", c.spec, c.in, spec)
			}
		}
		w.grant(c.in, "g", "")
	}
}

// TestBelowTakesEffect: a binding for lower hubs binds nothing until its label is removed, which
// needs the same rights as creating it without the label.
func TestBelowTakesEffect(t *testing.T) {
	w := newWorld(t)
	jane := named("jane")
	const spec, label = `{export: {space: p, name: e}}`, v1alpha1.ForLabel + ": " + v1alpha1.ForBelow
	w.grant("c", "consumer", `{subjects: [{kind: User, name: jane}], roles: [{name: admin}]}`)
	here, below := [2]string{spec}, [2]string{spec, label}
	if refusal := w.bindLabeled(jane, here, below); !strings.Contains(refusal, `bind apiexports.orrery.dev ["e"] in space "p"`) {
		t.Errorf("without the right: %q", refusal)
	}
	if refusal := w.bindLabeled(jane, below, below); refusal != "" {
		t.Errorf("nothing changes: %s", refusal)
	}
	w.grant("p", "bind", `{subjects: [{kind: User, name: jane}], rules: [{apiGroups: [orrery.dev], resources: [apiexports], resourceNames: [e], verbs: [bind]}]}`)
	if refusal := w.bindLabeled(jane, here, below); refusal != "" {
		t.Errorf("with the right: %s", refusal)
	}
}

// TestWhoMayAcceptClaims: no user can give a provider rights that the user does not have. Rights
// that were given before stay when other users write the binding.
func TestWhoMayAcceptClaims(t *testing.T) {
	w := newWorld(t)
	jane := named("jane")
	w.grant("p", "bind", `{subjects: [{kind: User, name: jane}], rules: [{apiGroups: [orrery.dev], resources: [apiexports], verbs: [bind]}]}`)
	claims := func(settings ...string) string {
		return fmt.Sprintf(`{export: {space: p, name: e}, claims: [%s]}`, strings.Join(settings, ", "))
	}
	const secrets, no, maps = `{group: "", resource: secrets, state: Accepted}`, `{group: "", resource: secrets, state: Rejected}`, `{group: "", resource: configmaps, state: Accepted}`
	for _, c := range []struct {
		spec, now, old string
		may            bool
	}{
		{`verbs: [get, list, watch]`, claims(secrets), "", false},
		{`verbs: ["*"], namespaces: [n]`, claims(secrets), "", false},
		{`verbs: ["*"], resourceNames: [s]`, claims(secrets), claims(), false},
		{`verbs: ["*"]`, claims(secrets), "", true},
		{`verbs: ["*"]`, claims(secrets, maps), "", false},
		{`verbs: [get]`, claims(no), claims(secrets), true},
		{`verbs: [get]`, claims(secrets), claims(no), false},
		{`verbs: [get]`, claims(secrets, strings.Replace(maps, "Accepted", "Rejected", 1)), claims(secrets), true},
	} {
		w.grant("c", "g", `{subjects: [{kind: User, name: jane}], rules: [{apiGroups: [""], resources: [secrets], `+c.spec+`}]}`)
		if refusal := w.bind(jane, c.now, c.old); (refusal == "") != c.may {
			t.Errorf("%s: %s after %s: %q", c.spec, c.now, c.old, refusal)
		}
	}
}
