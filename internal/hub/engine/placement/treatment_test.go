package placement

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// drawnPolicies are those of sources. They have every field drawn, also those that
// are added later, but for Release and ServiceAccount, which are what Customizers and
// Locations say, and ReturnStatus, about which they have their say over all locations.
var drawnPolicies = rapid.Custom(func(t *rapid.T) wire.Policy {
	var p wire.Policy
	v := reflect.ValueOf(&p).Elem()
	for i := range v.NumField() {
		switch name := v.Type().Field(i).Name; name {
		case "Release", "ServiceAccount", "ReturnStatus":
		case "Associated":
			p.Associated = rapid.SampledFrom([]string{"", "core/pods", "apps/replicasets\ncore/pods", "apps/replicasets"}).Draw(t, name)
		default:
			v.Field(i).SetBool(rapid.Bool().Draw(t, name))
		}
	}
	return p
})

// What several say must not depend on the order in which they are asked.
func TestCombine(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		a, b, c := drawnPolicies.Draw(t, "a"), drawnPolicies.Draw(t, "b"), drawnPolicies.Draw(t, "c")
		if combine(a, a) != a || combine(a, b) != combine(b, a) || combine(combine(a, b), c) != combine(a, combine(b, c)) {
			t.Errorf("%+v, %+v, %+v", a, b, c)
		}
		if (a == b) != (policyBits(a) == policyBits(b) && a.Associated == b.Associated) {
			t.Errorf("%+v and %+v have the numbers %d and %d", a, b, policyBits(a), policyBits(b))
		}
		if (a == wire.Policy{}) != (describePolicy(a) == "") {
			t.Errorf("%+v is described as %q", a, describePolicy(a))
		}
	})
}
