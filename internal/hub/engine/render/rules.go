package render

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/rules"
)

// RulesOf returns the rules for a placement.Engine that match Customizing of a Renderer.
func RulesOf(e *rules.Engine) placement.RulesOf {
	return func(c placement.Customized) (converted placement.Rules) {
		if c.Spec == nil {
			return rulesOf(e.Templates(rules.Space{Name: string(c.Space), Labels: c.Labels.Map()}, c.Object))
		}
		data, names := make([]rules.Data, len(c.Spec.Data)), make([]string, len(c.Spec.Data))
		for i, d := range c.Spec.Data {
			names[i] = d.Name
			data[i] = rules.Data{Name: d.Name, Source: d.ConfigMap.Namespace + "/" + d.ConfigMap.Name, Values: c.Data[i]}
		}
		p := e.Prepare(c.Name, rules.Space{Name: string(c.Space), Labels: c.Labels.Map()}, c.Spec.Rules, data...)
		converted = rulesOf(p)
		for _, err := range e.Check(c.Spec.Rules, field.NewPath("rules"), names...) {
			converted.Problems = append(converted.Problems, err.Error())
		}
		return converted
	}
}

func rulesOf(p rules.Prepared) placement.Rules {
	converted := placement.Rules{Text: p.Text}
	if p.Needs != nil {
		converted.Needs = func(site placement.Site) string {
			return p.Needs(rules.Location{Name: string(site.Name), Labels: site.Labels.Map(), Properties: site.Properties})
		}
	}
	return converted
}

// Customizing returns a function for Renderer.Follow that applies the rules of RulesOf.
func Customizing(e *rules.Engine) func(object []byte, inputs []placement.Input) ([]byte, error) {
	return func(object []byte, inputs []placement.Input) ([]byte, error) {
		return e.Apply(object, inputsOf(inputs))
	}
}

// Tracing returns a function for Renderer.Tell, with the same rules.
func Tracing(e *rules.Engine) func(ctx context.Context, object []byte, inputs []placement.Input) ([]rules.Effect, error) {
	return func(ctx context.Context, object []byte, inputs []placement.Input) ([]rules.Effect, error) {
		return e.Trace(ctx, object, inputsOf(inputs))
	}
}

func inputsOf(inputs []placement.Input) []rules.Input {
	all := make([]rules.Input, len(inputs))
	for i, in := range inputs {
		all[i] = rules.Input{Text: in.Rules, Needs: in.Needs}
	}
	return all
}
