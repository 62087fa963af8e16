package rules

import (
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/expression"
)

const sites = `{"b":"by label","berlin":"B","mode":"fast","x":"by property"}`

// What is used of ConfigMaps is what an expression can tell of them, for all locations or
// for one: nothing else is in the text or among the needs.
func TestNeedsOfData(t *testing.T) {
	e := newEngine(t)
	for expression, want := range map[string][2]string{
		"'x'":                                  {"", ""},
		"data.s.mode":                          {`{"s":{"mode":"fast"}}`, ""},
		"data['s']['mode']":                    {`{"s":{"mode":"fast"}}`, ""},
		"has(data.s.none) ? 'a' : 'b'":         {`{"s":{}}`, ""},
		"data.?s.?none.orValue('')":            {`{"s":{}}`, ""},
		"data.s[location.name]":                {`{"s":{}}`, `{"data":{"s":{"berlin":"B"}},"name":"berlin"}`},
		"data.s[?location.name].value()":       {`{"s":{}}`, `{"data":{"s":{"berlin":"B"}},"name":"berlin"}`},
		"data.s[location.labels.site]":         {`{"s":{}}`, `{"data":{"s":{"b":"by label"}},"labels":{"site":"b"}}`},
		"data.s[location.properties.g]":        {`{"s":{}}`, `{"data":{"s":{"x":"by property"}},"properties":{"g":"x"}}`},
		"data.s[location.properties.i]":        {`{"s":{}}`, `{"data":{"s":{}},"properties":{"i":2.5}}`},
		"data.s[location.labels.region]":       {`{"s":{}}`, `{"data":{"s":{}},"labels":{"region":"eu"}}`},
		"data.s[data.s.mode]":                  {`{"s":` + sites + `}`, ""},
		"data.s[location.name + 'x']":          {`{"s":` + sites + `}`, `{"name":"berlin"}`},
		"string(location.name in data.s)":      {`{"s":{}}`, `{"data":{"s":{"berlin":"B"}},"name":"berlin"}`},
		"string('mode' in data.s)":             {`{"s":{"mode":"fast"}}`, ""},
		"data[location.labels.x].mode":         {`{}`, `{"data":{},"labels":{}}`},
		"data.map(k, k).join(',')":             {`{"s":` + sites + `,"unused":{}}`, ""},
		"[location.name].map(n, data.s[n])[0]": {`{"s":` + sites + `}`, `{"name":"berlin"}`},
		"data.s.mode + data.s[location.name] + [1].map(data, 'x')[0] + string(location.name == '')": {`{"s":{"mode":"fast"}}`, `{"data":{"s":{"berlin":"B"}},"name":"berlin"}`},
		"data.none.x": {`{}`, ""},
	} {
		all := []v1alpha1.Rule{{Path: "$.data.x", Expression: expression}}
		p := e.Prepare("c", Space{}, all, Data{"s", "n/s", sites}, Data{"unused", "n/u", "{}"})
		text, err := decodeText(p.Text)
		if err != nil {
			t.Fatal(err)
		}
		needs := ""
		if p.Needs != nil {
			needs = p.Needs(berlin)
		}
		if string(text.Data) != want[0] || needs != want[1] {
			t.Errorf("%s needs %s and %s, want %s and %s", expression, text.Data, needs, want[0], want[1])
		}
		// The outcome is the same with all that there is.
		made, err := e.Apply([]byte(web), []Input{{p.Text, needs}})
		text.Data = []byte(`{"s":` + sites + `,"unused":{}}`)
		all2, err2 := e.Apply([]byte(web), []Input{{text.encode(), canonical(berlin.values())}})
		if string(made) != string(all2) || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Errorf("%s gives %s %v, with all that there is %s %v", expression, made, err, all2, err2)
		}
	}
}

// What rules take from ConfigMaps is bounded, for all locations and for each; more of it
// fails, and is not kept.
func TestDataIsBounded(t *testing.T) {
	e := newEngine(t)
	large := func(n int) string { return canonical(map[string]any{"berlin": strings.Repeat("x", n), "paris": ""}) }
	for expression, most := range map[string]int{"data.s.berlin": maxData, "data.s[location.name]": maxDataHere} {
		for n, want := range map[int]string{most - 100: "", most: "rules[0] of Customizer c: the rules use more than"} {
			p := e.Prepare("c", Space{}, []v1alpha1.Rule{{Path: "$.a", Expression: expression}, {Path: "$.b", Value: value("1")}}, Data{"s", "n/s", large(n)})
			in := Input{Text: p.Text}
			if p.Needs != nil {
				in.Needs = p.Needs(berlin)
			}
			_, err := e.Apply([]byte(web), []Input{in})
			if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
				t.Errorf("%d bytes by %s: %v", n, expression, err)
			}
			if want != "" && len(in.Text)+len(in.Needs) > 500 {
				t.Errorf("%d bytes by %s: %d bytes are kept", n, expression, len(in.Text)+len(in.Needs))
			}
			if p.Needs != nil {
				if _, err := e.Apply([]byte(web), []Input{{p.Text, p.Needs(Location{Name: "paris"})}}); err != nil {
					t.Errorf("another location: %v", err)
				}
			}
		}
	}
}

// A ConfigMap is decoded once for all Customizers that use it.
func TestContentsAreShared(t *testing.T) {
	e := newEngine(t)
	a, b := e.contents.get(sites), e.contents.get(strings.Clone(sites))
	if a == nil || a != b || len(e.contents.byHash) != 1 {
		t.Errorf("%p and %p of %d", a, b, len(e.contents.byHash))
	}
	if e.contents.get("") != nil || e.contents.get("[]") != nil {
		t.Error("nothing is something")
	}
}

// parseJSON costs by what it reads.
func TestParsingCosts(t *testing.T) {
	e := newEngine(t)
	list := func(n int) string { return "[" + strings.Repeat("1,", n) + "1]" }
	for n, want := range map[int]string{10: "", expression.MaxParsed: "limit exceeded"} {
		_, err := one(v1alpha1.Rule{Path: "$.a", Expression: "size(parseJSON(object.x))"}).gets(e, []byte(`{"x":"`+list(n)+`"}`), Space{}, berlin)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d: %v", n, err)
		}
	}
	_, err := one(v1alpha1.Rule{Path: "$.a", Expression: "[1,2,3,4,5,6,7,8].map(i, size(parseJSON(object.x)))"}).
		gets(e, []byte(`{"x":"`+list(expression.MaxParsed/2-10)+`"}`), Space{}, berlin)
	if err == nil || !strings.Contains(err.Error(), "cost limit") {
		t.Errorf("eight times as much as may be read once: %v", err)
	}
}
