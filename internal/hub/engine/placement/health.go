package placement

import (
	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// MaxHealthRules is the maximum number of KindRules that apply to one object.
const MaxHealthRules = 8

// HealthInput is the input of a health rule.
type HealthInput struct {
	// Object is the JSON of the object in its space, and Status that of its status at a location;
	// empty if the location reports none.
	Object, Status []byte
}

// Health computes the health of an object at a location. If it is not Healthy, message is the reason. It
// is a pure function, and safe for concurrent use.
type Health func(HealthInput) (health wire.Health, message string, err error)

// HealthOf compiles the health rule of a KindRules. problems describes what is invalid; health is
// then a function that fails. It must be a pure function.
type HealthOf func(spec *v1alpha1.KindRulesSpec) (health Health, problems []string)

// HealthRule is the health rule of one KindRules.
type HealthRule struct {
	// KindRules is the KindRules that has the rule.
	KindRules key.Object
	Health    Health
}

// HealthRules are the health rules for an object. They are immutable; nil if there are none.
type HealthRules struct {
	// Rules are in the order of their names, at most MaxHealthRules.
	Rules []HealthRule
	// Omitted is the number of rules above MaxHealthRules.
	Omitted int
	// id identifies the rules.
	id string
}

// identity returns a text that identifies the rules; empty if there are none.
func (h *HealthRules) identity() string {
	if h == nil {
		return ""
	}
	return h.id
}
