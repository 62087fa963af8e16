package rules

import (
	"encoding/json"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/expression"
)

// text is the encoded form of the rules of one Customizer.
type text struct {
	Version    int    `json:"version"`
	Customizer string `json:"customizer,omitempty"`
	// Space holds the values that the rules use of their space.
	Space json.RawMessage `json:"space,omitempty"`
	// Data holds the data of ConfigMaps that the rules use at all locations alike. Missing holds
	// the ConfigMaps that do not exist, by the names in expressions.
	Data    json.RawMessage   `json:"data,omitempty"`
	Missing map[string]string `json:"missing,omitempty"`
	Rules   []indexed         `json:"rules,omitempty"`
	// Templates reports whether the text stands for the templates in an object. Needs describes the
	// values of a location that these use.
	Templates bool            `json:"templates,omitempty"`
	Needs     json.RawMessage `json:"needs,omitempty"`
	// TooLong reports whether the rules exceed the limit of a text and are left out.
	TooLong bool `json:"tooLong,omitempty"`
	// TooMuch reports whether the rules use too much data of ConfigMaps.
	TooMuch bool `json:"tooMuch,omitempty"`
}

// indexed is a rule with its index in the Customizer.
type indexed struct {
	Index int           `json:"index"`
	Rule  v1alpha1.Rule `json:"rule"`
}

func indexedAll(all []v1alpha1.Rule) (out []indexed) {
	for i := range all {
		out = append(out, indexed{i, all[i]})
	}
	return out
}

// encode encodes the text: equal rules have equal encodings, however their values are written.
func (t text) encode() string {
	rules := make([]indexed, len(t.Rules))
	for i, r := range t.Rules {
		if v := r.Rule.Value; v != nil {
			if decoded, err := expression.Decode(v.Raw); err == nil {
				r.Rule.Value = &apiextensionsv1.JSON{Raw: expression.Encode(decoded)}
			}
		}
		rules[i] = r
	}
	t.Rules = rules
	return string(expression.Encode(t))
}

func decodeText(encoded string) (t text, err error) {
	if err := json.Unmarshal([]byte(encoded), &t); err != nil {
		return t, fmt.Errorf("decode rules: %w", err)
	}
	return t, nil
}

// canonical returns the canonical JSON of a value in the form of expression.Decode.
func canonical(v any) string { return string(expression.Encode(v)) }

// valuesOf decodes an object; empty for an empty text.
func valuesOf(needs string) (map[string]any, error) {
	if needs == "" {
		return map[string]any{}, nil
	}
	decoded, err := expression.Decode([]byte(needs))
	if err != nil {
		return nil, err
	}
	values, ok := decoded.(map[string]any)
	if !ok {
		return nil, errors.New("not an object")
	}
	return values, nil
}

// values returns the values of a location for expressions.
func (l Location) values() map[string]any {
	properties := map[string]any{}
	if l.Properties != "" {
		if decoded, err := expression.Decode([]byte(l.Properties)); err == nil {
			properties, _ = decoded.(map[string]any)
		}
	}
	return map[string]any{"name": l.Name, "labels": anyOf(l.Labels), "properties": properties}
}

func anyOf(m map[string]string) map[string]any {
	all := make(map[string]any, len(m))
	for k, v := range m {
		all[k] = v
	}
	return all
}
