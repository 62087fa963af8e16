package render

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/rules"
)

// RulesOf gives a placement.Engine the rules that Customizing has a Renderer follow.
func RulesOf(e *rules.Engine) placement.RulesOf {
	return func(c placement.Customized) (of placement.Rules) {
		if c.Spec == nil {
			return rulesOf(e.Templates(rules.Space{Name: string(c.Space), Labels: c.Labels.Map()}, c.Object))
		}
		data, names := make([]rules.Data, len(c.Spec.Data)), make([]string, len(c.Spec.Data))
		for i, d := range c.Spec.Data {
			names[i] = d.Name
			data[i] = rules.Data{Name: d.Name, Source: d.ConfigMap.Namespace + "/" + d.ConfigMap.Name, Values: c.Data[i]}
		}
		p := e.Prepare(c.Name, rules.Space{Name: string(c.Space), Labels: c.Labels.Map()}, c.Spec.Rules, data...)
		of = rulesOf(p)
		for _, err := range e.Check(c.Spec.Rules, field.NewPath("rules"), names...) {
			of.Problems = append(of.Problems, err.Error())
		}
		return of
	}
}

func rulesOf(p rules.Prepared) placement.Rules {
	of := placement.Rules{Text: p.Text}
	if p.Needs != nil {
		of.Needs = func(at placement.Site) string {
			return p.Needs(rules.Location{Name: string(at.Name), Labels: at.Labels.Map(), Properties: at.Properties})
		}
	}
	return of
}

// Customizing is a Renderer's Follow by the rules that RulesOf gives.
func Customizing(e *rules.Engine) func(object []byte, inputs []placement.Input) ([]byte, error) {
	return func(object []byte, inputs []placement.Input) ([]byte, error) {
		return e.Apply(object, inputsOf(inputs))
	}
}

// Telling is a Renderer's Tell beside Customizing.
func Telling(e *rules.Engine) func(ctx context.Context, object []byte, inputs []placement.Input) ([]rules.Effect, error) {
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
