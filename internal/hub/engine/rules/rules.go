// Package rules applies the rules of Customizers to objects: values, CEL expressions and removals,
// each at the places that its path selects. Before these, it expands the templates in the texts of
// an object. It also returns the values that rules use, and checks rules against the schemas of
// kinds.
//
// The result is a function of the object and of the inputs, which are texts: the rules with the
// values that they use of their space, and the values that they use of a location. The package must
// never have a clock, a client or a logger, depend on the user of a request, or change the identity
// of an object. Compiled expressions are cached for all users. Only the hub links this package.
package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/lru"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/expression"
	"orrery.dev/orrery/internal/protocol/rulepath"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// version is the version of the semantics of rules. It is part of every text, so that hubs with
	// other semantics have other texts.
	version = 2
	// maxText bounds the text of the rules of one Customizer, in bytes.
	maxText = 64 << 10
	// keptTexts and keptPrograms bound the caches of compiled rules and expressions.
	keptTexts, keptPrograms = 512, 2048
)

// Engine compiles and applies rules. It is safe for concurrent use. All users share one, and
// thereby its caches.
type Engine struct {
	version  int
	language *language
	texts    *lru.Cache // values are *ruleset, by text
	contents contents
}

// New returns an Engine.
func New() (*Engine, error) { return NewOf(version) }

// NewOf returns an Engine with another version number, for tests of an upgrade. The semantics are
// the same.
func NewOf(version int) (*Engine, error) {
	l, err := newLanguage()
	if err != nil {
		return nil, fmt.Errorf("make the language of rules: %w", err)
	}
	return &Engine{version: version, language: l, texts: lru.New(keptTexts)}, nil
}

// Input is the part of a rendering class from one Customizer: Prepared.Text, and the result of
// Prepared.Needs for the location.
type Input struct{ Text, Needs string }

// Location holds the fields of a location that rules can use.
type Location struct {
	Name   string
	Labels map[string]string
	// Properties is a JSON object; empty if there are none.
	Properties string
}

// Space holds the fields of the space that rules can use.
type Space struct {
	Name   string
	Labels map[string]string
}

// Prepared is the result of Prepare for one Customizer.
type Prepared struct {
	// Text identifies the rules, with the values that they use of the space; empty if no rule
	// changes objects.
	Text string
	// Needs returns the values that the rules use of a location, as canonical JSON; nil if they use
	// none.
	Needs func(Location) string
}

// Prepare prepares the rules of a Customizer. Unusable rules are prepared to fail. data are the
// ConfigMaps that they can use.
func (e *Engine) Prepare(customizer string, s Space, all []v1alpha1.Rule, data ...Data) Prepared {
	t := text{Version: e.version, Customizer: customizer}
	ofLocation, ofSpace, ofData := uses{}, uses{}, uses{}
	for i := range all {
		if all[i].Release {
			continue
		}
		t.Rules = append(t.Rules, indexed{i, all[i]})
		if p, err := e.language.compile(all[i].Expression); all[i].Expression != "" && err == nil {
			ofLocation.merge(p.location)
			ofSpace.merge(p.space)
			ofData.merge(p.data)
		}
	}
	if len(t.Rules) == 0 {
		return Prepared{}
	}
	if !ofSpace.none() {
		t.Space = []byte(canonical(ofSpace.pick(map[string]any{"name": s.Name, "labels": anyOf(s.Labels)})))
	}
	p := Prepared{Text: t.encode()}
	if len(p.Text) > maxText {
		return Prepared{Text: text{Version: e.version, Customizer: customizer, TooLong: true}.encode()}
	}
	used := e.used(ofData, data)
	if !used.into(&t) {
		return Prepared{Text: text{Version: e.version, Customizer: customizer, TooMuch: true}.encode()}
	}
	if t.Data != nil {
		p.Text = t.encode()
	}
	if used.here.none() {
		used.contents = nil // do not keep them in memory
	}
	if !ofLocation.none() { // also if a value of the location selects a key of data
		p.Needs = func(l Location) string {
			values := l.values()
			needs, _ := ofLocation.pick(values).(map[string]any)
			used.addNeeds(values, needs)
			return canonical(needs)
		}
	}
	return p
}

var errTooLong = fmt.Errorf("the rules of one Customizer may not be longer than %d bytes as JSON", maxText)

// Check returns the errors in the rules of a Customizer. names are the names of its data.
func (e *Engine) Check(all []v1alpha1.Rule, fieldPath *field.Path, names ...string) (errs field.ErrorList) {
	for i := range all {
		r, problem := e.rule(i, all[i])
		if problem == nil {
			problem = r.program.undeclared(all[i].Expression, names)
		}
		if problem != nil {
			errs = append(errs, problem.fieldError(fieldPath.Index(i)))
		}
	}
	if t := (text{Version: e.version, Rules: indexedAll(all)}); len(t.encode()) > maxText {
		errs = append(errs, field.Forbidden(fieldPath, errTooLong.Error()))
	}
	return errs
}

// RuleError is the error of a failed rule.
type RuleError struct {
	// Customizer is the name of the Customizer, and Rule the index of the rule.
	Customizer string
	Rule       int
	Message    string
}

// Error names the rule.
func (f *RuleError) Error() string {
	return fmt.Sprintf("rules[%d] of Customizer %s: %s", f.Rule, f.Customizer, f.Message)
}

// Reason returns the reason of objects that are held because of it.
func (f *RuleError) Reason() string { return v1alpha1.ReasonRuleFailed }

// FailedRule returns the name of the Customizer and the index of the rule.
func (f *RuleError) FailedRule() (customizer string, rule int) { return f.Customizer, f.Rule }

// Apply applies the rules of inputs, in their order, to an object. The object and the result are
// canonical JSON. An error is a *RuleError or a *TemplateError, unless the object or the inputs are
// malformed.
func (e *Engine) Apply(object []byte, inputs []Input) ([]byte, error) {
	return e.apply(context.Background(), object, inputs, nil) // no timeout: a result must be the same at all hubs
}

// apply is Apply with an optional trace, which records the effect of each rule.
func (e *Engine) apply(ctx context.Context, object []byte, inputs []Input, t *trace) ([]byte, error) {
	tree, err := expression.Decode(object)
	if err != nil {
		return nil, fmt.Errorf("decode the object: %w", err)
	}
	root, ok := tree.(map[string]any)
	if !ok {
		return nil, errors.New("apply rules: not an object")
	}
	r := run{ctx: ctx, object: root, original: identityOf(root), room: max(maxResult, len(object)), trace: t}
	for _, in := range inputs {
		if err := e.applyInput(&r, in); err != nil {
			return nil, err
		}
	}
	return expression.Encode(r.object), nil
}

func (e *Engine) applyInput(r *run, in Input) error {
	set, err := e.rulesOf(in.Text)
	if err != nil {
		return err
	}
	if r.ofLocation, err = valuesOf(in.Needs); err != nil {
		return fmt.Errorf("decode what rules need of a location: %w", err)
	}
	if r.ofSpace, err = valuesOf(string(set.space)); err != nil {
		return fmt.Errorf("decode what rules need of a space: %w", err)
	}
	tooMuch := r.takeData(set.data)
	if set.templates {
		return e.expand(r)
	}
	r.customizers++
	for i := range set.rules {
		rule := &set.rules[i]
		r.trace.begin(set.customizer, rule)
		err := rule.broken
		if r.customizers > rulepath.MaxCustomizers {
			err = errTooMany
		}
		if err == nil && tooMuch && !rule.program.uses().none() {
			err = errTooMuchHere
		}
		if err == nil {
			err = set.explain(rule, r.apply(rule))
		}
		if err == nil {
			err = r.original.check(r.object)
		}
		if err == nil && i == len(set.rules)-1 && expression.DepthOf(r.object) > maxDepth {
			err = errTooDeep
		}
		if err != nil {
			failed := &RuleError{set.customizer, rule.index, wire.Brief(err.Error())}
			r.trace.fail(failed)
			return failed
		}
	}
	return nil
}

// ruleset holds the compiled rules of a text.
type ruleset struct {
	customizer string
	space      []byte
	// data holds the texts of ConfigMaps that are the same at all locations. It is shared.
	data map[string]any
	// missing holds the ConfigMaps that do not exist, by the names of data.
	missing map[string]string
	rules   []rule
	// templates reports whether the templates in the object are expanded.
	templates bool
}

func (e *Engine) rulesOf(encoded string) (*ruleset, error) {
	if known, ok := e.texts.Get(encoded); ok {
		return known.(*ruleset), nil
	}
	t, err := decodeText(encoded)
	if err != nil {
		return nil, err
	}
	if t.Version != e.version {
		return nil, fmt.Errorf("decode rules: version %d", t.Version)
	}
	set := &ruleset{customizer: t.Customizer, space: t.Space, missing: t.Missing, templates: t.Templates}
	if set.data, err = valuesOf(string(t.Data)); err != nil {
		return nil, fmt.Errorf("decode what rules need of ConfigMaps: %w", err)
	}
	switch {
	case t.TooLong:
		set.rules = []rule{{broken: errTooLong}}
	case t.TooMuch:
		set.rules = []rule{{broken: errTooMuchData}}
	}
	for _, in := range t.Rules {
		r, problem := e.rule(in.Index, in.Rule)
		if problem != nil {
			r = rule{index: in.Index, text: in.Rule.Path, broken: problem}
		}
		set.rules = append(set.rules, r)
	}
	e.texts.Add(encoded, set)
	return set, nil
}

// problem is the error of an unusable rule, with the field.
type problem struct {
	field string // empty: the rule as a whole
	value string
	error
}

func (p *problem) fieldError(path *field.Path) *field.Error {
	if p.field == "" {
		return field.Forbidden(path, p.Error())
	}
	return field.Invalid(path.Child(p.field), p.value, p.Error())
}

// rule compiles a rule, which may be one that releases.
func (e *Engine) rule(index int, from v1alpha1.Rule) (r rule, bad *problem) {
	given := []bool{from.Value != nil, from.Expression != "", from.Remove, from.Release}
	if n := len(slices.DeleteFunc(given, func(is bool) bool { return !is })); n != 1 {
		return r, &problem{error: errors.New("needs exactly one of value (not null), expression, remove: true, release: true")}
	}
	r = rule{index: index, text: from.Path, remove: from.Remove, strict: from.OnMissing == v1alpha1.OnMissingFail}
	var err error
	if r.path, err = parsePath(from.Path); err != nil {
		return r, &problem{"path", from.Path, err}
	}
	if r.path.appends && (from.Remove || from.Release) {
		return r, &problem{"path", from.Path, errors.New("may end with [+] only for value and expression")}
	}
	switch {
	case from.Value != nil:
		if r.value, err = expression.Decode(from.Value.Raw); err == nil {
			err = r.path.checkValue(r.value)
		}
		if err != nil {
			return r, &problem{"value", string(from.Value.Raw), err}
		}
	case from.Expression != "":
		if r.program, err = e.language.compile(from.Expression); err != nil {
			return r, &problem{"expression", from.Expression, err}
		}
	}
	return r, nil
}
