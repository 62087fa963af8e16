// Package rules applies the rules of Customizers to objects: values, expressions in CEL and
// removals, each at the places that its path leads to; before these, the templates in an
// object's own texts. It also says what rules use, and whether they fit the schemas of kinds.
//
// What comes out is a function of the object and of the inputs alone, which are texts: the
// rules, with what they use of their space, and what they use of a location. It must never
// have a clock, a client or a log, never know who asks, and never change what an object is.
// Expressions are compiled once for all who use them. Only the hub links this package.
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
	// version is that of what rules mean. It is part of every text, so that a hub for which
	// the same rules mean something else has other texts.
	version = 2
	// maxText bounds the text of the rules of one Customizer, in bytes.
	maxText = 64 << 10
	// keptTexts and keptPrograms bound how many rules and expressions are kept compiled.
	keptTexts, keptPrograms = 512, 2048
)

// Engine compiles and applies rules. It is safe for concurrent use; one is shared by all, so
// that they share what is compiled.
type Engine struct {
	version  int
	language *language
	texts    *lru.Cache // of []rule, by text
	contents contents
}

// New makes an Engine.
func New() (*Engine, error) { return NewOf(version) }

// NewOf makes an Engine of another version of what rules mean, which it calls the same: for
// tests of what follows of a new one.
func NewOf(version int) (*Engine, error) {
	l, err := newLanguage()
	if err != nil {
		return nil, fmt.Errorf("make the language of rules: %w", err)
	}
	return &Engine{version: version, language: l, texts: lru.New(keptTexts)}, nil
}

// Input is what a rendering takes from one Customizer: a Prepared.Text, and what its
// Needs gave of the location.
type Input struct{ Text, Needs string }

// Location is what rules can use of a location.
type Location struct {
	Name   string
	Labels map[string]string
	// Properties is a JSON object; empty if there are none.
	Properties string
}

// Space is what rules can use of the space that they are in.
type Space struct {
	Name   string
	Labels map[string]string
}

// Prepared are the rules of one Customizer.
type Prepared struct {
	// Text identifies them, with what they use of the space; empty if there are none that
	// change objects.
	Text string
	// Needs gives what they use of a location, as canonical JSON; nil if they use nothing.
	Needs func(Location) string
}

// Prepare prepares the rules of a Customizer. Those that can't be used are prepared to fail.
// data is what they can use of ConfigMaps.
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
		used.contents = nil // which are not kept for nothing
	}
	if !ofLocation.none() { // nor is it where a location's value is the key of a text
		p.Needs = func(l Location) string {
			values := l.values()
			needs, _ := ofLocation.pick(values).(map[string]any)
			used.at(values, needs)
			return canonical(needs)
		}
	}
	return p
}

var errTooLong = fmt.Errorf("the rules of one Customizer may not be longer than %d bytes as JSON", maxText)

// Check says what of the rules of a Customizer can't be used. names are those of its data.
func (e *Engine) Check(all []v1alpha1.Rule, at *field.Path, names ...string) (errs field.ErrorList) {
	for i := range all {
		r, problem := e.rule(i, all[i])
		if problem == nil {
			problem = r.program.undeclared(all[i].Expression, names)
		}
		if problem != nil {
			errs = append(errs, problem.at(at.Index(i)))
		}
	}
	if t := (text{Version: e.version, Rules: indexedAll(all)}); len(t.encode()) > maxText {
		errs = append(errs, field.Forbidden(at, errTooLong.Error()))
	}
	return errs
}

// RuleError says which rule failed, and why.
type RuleError struct {
	// Customizer is the name of the rule's, and Rule its index there.
	Customizer string
	Rule       int
	Message    string
}

// Error names the rule.
func (f *RuleError) Error() string {
	return fmt.Sprintf("rules[%d] of Customizer %s: %s", f.Rule, f.Customizer, f.Message)
}

// Reason is the reason of objects that are held for it.
func (f *RuleError) Reason() string { return v1alpha1.ReasonRuleFailed }

// FailedRule is the name of the Customizer and the index of the rule.
func (f *RuleError) FailedRule() (customizer string, rule int) { return f.Customizer, f.Rule }

// Apply applies the rules of inputs, in their order, to an object, which is canonical JSON
// as is the result. An error is a *RuleError or a *TemplateError, unless object or inputs are nonsense.
func (e *Engine) Apply(object []byte, inputs []Input) ([]byte, error) {
	return e.apply(context.Background(), object, inputs, nil) // a result is the same at all hubs: it does not end by time
}

// apply is Apply, and has a trace note what each rule does unless that is nil.
func (e *Engine) apply(ctx context.Context, object []byte, inputs []Input, t *trace) ([]byte, error) {
	tree, err := expression.Decode(object)
	if err != nil {
		return nil, fmt.Errorf("decode the object: %w", err)
	}
	root, ok := tree.(map[string]any)
	if !ok {
		return nil, errors.New("apply rules: not an object")
	}
	r := run{ctx: ctx, object: root, was: identityOf(root), room: max(maxResult, len(object)), trace: t}
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
			err = r.was.check(r.object)
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

// ruleset are the compiled rules of a text.
type ruleset struct {
	customizer string
	space      []byte
	// data has the texts of ConfigMaps that are the same at all locations. It is shared.
	data map[string]any
	// missing are the ConfigMaps that are not there, by the names of data.
	missing map[string]string
	rules   []rule
	// templates says that those in the object are expanded.
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

// problem says why a rule can't be used, and in which of its fields that shows.
type problem struct {
	field string // empty: the rule as a whole
	value string
	error
}

func (p *problem) at(path *field.Path) *field.Error {
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
			err = r.path.takes(r.value)
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
