package custom

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/internal/hub/kinds/schemacost"
)

// nested is a schema with rules of loops within each other. Each costs less than the library allows one call.
const nested = `{type: object, properties: {l: {type: array, maxItems: 60, items: {type: integer}}, status: {type: object}},
	x-kubernetes-validations: [
		{rule: "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))"},
		{rule: "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= -1)))"},
		{rule: "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= -2)))"}]}`

// withBudget returns a request that has spent its budget but for a rest.
func withBudget(rest int64) context.Context {
	ctx := schemacost.WithBudget(context.Background())
	schemacost.BudgetOf(ctx).Spend(func(int64) int64 { return rest })
	return ctx
}

// TestRulesOfARequestHaveOneBudget: the rules of an object, and of all attempts of a request, have one budget
// of cost together, and the error names it. Another request has its own.
func TestRulesOfARequestHaveOneBudget(t *testing.T) {
	k := kindOf(t, nested)
	object := func(n int, element string) *unstructured.Unstructured {
		t.Helper()
		u, err := decode(t, k, apiruntime.ContentTypeJSON, widget(`"l":`+repeat(n, element)), false)
		if err != nil {
			t.Fatal(err)
		}
		u.SetNamespace("default")
		u.SetResourceVersion("1")
		return u
	}
	all, s := context.Background(), k.Custom.(version).Strategy()
	check := func(what string, errs field.ErrorList, refusal string) {
		t.Helper()
		if (refusal != "") != (len(errs) > 0) || !strings.Contains(fmt.Sprint(errs), refusal) {
			t.Errorf("%s: %v", what, errs)
		}
	}
	check("a small one", s.Validate(all, object(15, "1")), "")
	const refusal = "cost more than the 10000000 that one request may use"
	check("a large object", s.Validate(withBudget(10_000), object(15, "1")), refusal)
	request, attempts := withBudget(200_000), 0
	for ; attempts < 1000; attempts++ {
		if errs := s.ValidateUpdate(request, object(15, "2"), object(15, "1")); len(errs) > 0 {
			check("many attempts", errs, refusal)
			break
		}
	}
	if attempts < 2 || attempts > 10 {
		t.Errorf("%d attempts were made", attempts)
	}
	check("another request", s.ValidateUpdate(schemacost.WithBudget(all), object(15, "2"), object(15, "1")), "")

	ended, end := context.WithCancel(all)
	end()
	if errs := s.Validate(ended, object(15, "1")); len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), "context canceled") {
		t.Errorf("a request that has ended: %v", errs)
	}
}

// TestRulesAreThoseOfTheLibrary: rules count in all places where a schema may have them, with the old object,
// and only if the object is right otherwise.
func TestRulesAreThoseOfTheLibrary(t *testing.T) {
	k := kindOf(t, `{type: object, properties: {
		count: {type: integer, x-kubernetes-validations: [{rule: "self >= oldSelf", message: "may not shrink"}]},
		m: {type: object, additionalProperties: {type: string, x-kubernetes-validations: [{rule: "self != 'bad'", message: "is bad"}]}},
		l: {type: array, maxItems: 5, items: {type: integer, x-kubernetes-validations: [{rule: "self < 7", message: "is large"}]}},
		a: {type: integer, allOf: [{minimum: 0, x-kubernetes-validations: [{rule: "self != 3", message: "is three"}]}]}}}`)
	s := k.Custom.(version).Strategy()
	object := func(text string) *unstructured.Unstructured {
		t.Helper()
		u, err := decode(t, k, apiruntime.ContentTypeJSON, widget(text), false)
		if err != nil {
			t.Fatal(err)
		}
		u.SetNamespace("default")
		u.SetResourceVersion("1")
		return u
	}
	for _, c := range []struct{ previous, current, want string }{
		{``, `"count":1,"m":{"k":"v"},"l":[1],"a":1`, ""},
		{``, `"m":{"k":"bad"}`, "m[k]: Invalid value: is bad"},
		{``, `"l":[1,8]`, "l[1]: Invalid value: is large"},
		{``, `"a":3`, "a: Invalid value: is three"},
		{``, `"l":[1,2,3,4,5,8]`, "some validation rules were not checked"},
		{`"count":2`, `"count":1`, "count: Invalid value: may not shrink"},
		{`"count":2`, `"count":3`, ""},
		{`"l":[8]`, `"l":[8],"count":3`, ""}, // wrong before
	} {
		var errs field.ErrorList
		if c.previous == "" {
			errs = s.Validate(context.Background(), object(c.current))
		} else {
			errs = s.ValidateUpdate(context.Background(), object(c.current), object(c.previous))
		}
		got := ""
		if len(errs) > 0 {
			got = errs.ToAggregate().Error()
		}
		if (got == "") != (c.want == "") || !strings.Contains(strings.NewReplacer(` "bad":`, "", " 8:", "", " 3:", "", " 1:", "").Replace(got), c.want) {
			t.Errorf("%s after %s: %q, want %q", c.current, c.previous, got, c.want)
		}
	}
}

// TestMetadataOfAnExpensiveObject: of an object whose rules cost too much, since the CRD was changed after the
// object was stored, the metadata can still be changed, such as finalizers of an object that is being deleted.
func TestMetadataOfAnExpensiveObject(t *testing.T) {
	k := kindOf(t, nested)
	object := func(element string, finalizers ...string) *unstructured.Unstructured {
		t.Helper()
		u, err := decode(t, k, apiruntime.ContentTypeJSON, widget(`"l":`+repeat(15, element)), false)
		if err != nil {
			t.Fatal(err)
		}
		u.SetNamespace("default")
		u.SetResourceVersion("1")
		u.SetFinalizers(finalizers)
		return u
	}
	s := k.Custom.(version).Strategy()
	if errs := s.ValidateUpdate(withBudget(1000), object("1"), object("1", "example.com/f")); len(errs) > 0 {
		t.Errorf("a change of metadata: %v", errs)
	}
	if errs := s.ValidateUpdate(withBudget(1000), object("2"), object("1")); len(errs) == 0 {
		t.Error("another change passes")
	}
}
