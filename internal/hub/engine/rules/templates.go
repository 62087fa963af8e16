package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/expression"
	"orrery.dev/orrery/internal/protocol/rulepath"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// maxTemplates bounds the expressions in the texts of one object, and maxTemplateBytes their
	// total size.
	maxTemplates, maxTemplateBytes = 64, 16 << 10

	// opened begins an expression in a text, closed ends it, and escaped stands for a literal
	// opened.
	opened, closed, escaped = "${", '}', "$${"
)

var errTooManyTemplates = fmt.Errorf("an object may have %d expressions in its texts, of %d bytes together", maxTemplates, maxTemplateBytes)

// TemplateError is the error of a text that cannot be expanded.
type TemplateError struct {
	// Path is the path of the text; empty for all texts.
	Path    string
	Message string
}

// Error names the text.
func (f *TemplateError) Error() string {
	if f.Path == "" {
		return "templates: " + f.Message
	}
	return fmt.Sprintf("template at %s: %s", f.Path, f.Message)
}

// Reason returns the reason of objects that are held because of it.
func (f *TemplateError) Reason() string { return v1alpha1.ReasonTemplateFailed }

// FailedRule returns no rule: the template is in the object itself.
func (f *TemplateError) FailedRule() (customizer string, rule int) { return "", 0 }

// piece is a part of a text: literal text or an expression.
type piece struct {
	text         string
	isExpression bool
}

// template is a text with expressions.
type template struct {
	location rulepath.Location
	pieces   []piece
	// broken is the error of an unusable template.
	broken error
}

// Templates prepares the templates in an object. Unusable ones are prepared to fail.
func (e *Engine) Templates(s Space, object []byte) Prepared {
	tree, err := expression.Decode(object)
	root, ok := tree.(map[string]any)
	if err != nil || !ok {
		return Prepared{}
	}
	all := templatesOf(root)
	if len(all) == 0 {
		return Prepared{}
	}
	ofLocation, ofSpace := uses{}, uses{}
	for _, p := range e.programs(all) {
		ofLocation.merge(p.location)
		ofSpace.merge(p.space)
	}
	t := text{Version: e.version, Templates: true}
	if !ofSpace.none() {
		t.Space = expression.Encode(ofSpace.pick(map[string]any{"name": s.Name, "labels": anyOf(s.Labels)}))
	}
	var p Prepared
	if !ofLocation.none() {
		t.Needs = expression.Encode(ofLocation.described())
		p.Needs = func(l Location) string { return canonical(ofLocation.pick(l.values())) }
	}
	p.Text = t.encode()
	return p
}

// programs returns the programs of the expressions in templates, without unusable ones. It returns
// none if there are too many.
func (e *Engine) programs(all []template) (programs []*program) {
	if tooMany(all) {
		return nil
	}
	for _, t := range all {
		for _, p := range t.pieces {
			if p.isExpression {
				if compiled, err := e.template(p.text); err == nil {
					programs = append(programs, compiled)
				}
			}
		}
	}
	return programs
}

// template compiles an expression in a text.
func (e *Engine) template(expression string) (*program, error) {
	p, err := e.language.compile(expression)
	switch {
	case err != nil:
		return nil, err
	case p.self || !p.data.none():
		return nil, errors.New("not valid: templates have no self and no data; a Customizer's rules do")
	}
	return p, nil
}

func tooMany(all []template) bool {
	n, size := 0, 0
	for _, t := range all {
		for _, p := range t.pieces {
			if p.isExpression {
				n, size = n+1, size+len(p.text)
			}
		}
	}
	return n > maxTemplates || size > maxTemplateBytes
}

// CheckTemplates returns the errors in the templates of an object. Texts may have any type below
// objects and lists.
func (e *Engine) CheckTemplates(object map[string]any) (errs field.ErrorList) {
	all := templatesOf(object)
	if tooMany(all) {
		return field.ErrorList{field.Forbidden(nil, errTooManyTemplates.Error())}
	}
	for _, t := range all {
		err, shown := t.broken, ""
		for _, p := range t.pieces {
			if err == nil && p.isExpression {
				_, err = e.template(p.text)
				shown = p.text
			}
		}
		if err != nil {
			errs = append(errs, field.Invalid(fieldAt(t.location), shown, err.Error()))
		}
	}
	return errs
}

// fieldAt returns a place as the path of a field error.
func fieldAt(location rulepath.Location) (path *field.Path) {
	for _, step := range location {
		switch step := step.(type) {
		case int:
			path = path.Index(step)
		case string:
			if strings.ContainsAny(step, "./[] ") && path != nil {
				path = path.Key(step)
			} else {
				path = path.Child(step)
			}
		}
	}
	return path
}

// expand expands the templates in an object. All use the object before the expansion.
func (e *Engine) expand(r *run) error {
	all := templatesOf(r.object)
	if tooMany(all) {
		return &TemplateError{"", errTooManyTemplates.Error()}
	}
	texts := make([]string, len(all))
	for i, t := range all {
		var err error
		if texts[i], err = e.expanded(r, t); err != nil {
			return &TemplateError{describe(t.location), wire.Brief(err.Error())}
		}
	}
	for i, t := range all {
		set(r.object, t.location, texts[i])
	}
	if err := r.original.check(r.object); err != nil {
		return &TemplateError{"", err.Error()}
	}
	return nil
}

// expanded returns the expansion of a template.
func (e *Engine) expanded(r *run, t template) (string, error) {
	var b strings.Builder
	if t.broken != nil {
		return "", t.broken
	}
	for _, p := range t.pieces {
		add := p.text
		if p.isExpression {
			compiled, err := e.template(p.text)
			if err != nil {
				return "", err
			}
			value, err := compiled.eval(r, nil)
			if err != nil {
				return "", err
			}
			if add, err = textFor(value); err != nil {
				return "", err
			}
		}
		if r.room -= len(add); r.room < 0 {
			return "", errTooMuch
		}
		b.WriteString(add)
	}
	return b.String(), nil
}

// textFor returns the text of a value: strings unquoted, other values as JSON.
func textFor(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", errors.New("the expression gives null, which is no text")
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	}
	return canonical(value), nil
}

// templatesOf returns the templates in an object, in a fixed order. Keys, identifying fields and
// fields that stay in the space have none.
func templatesOf(object map[string]any) (all []template) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		switch name {
		case "apiVersion", "kind", "status":
		case "metadata":
			metadata, _ := object[name].(map[string]any)
			for _, kind := range []string{"annotations", "labels"} {
				values, _ := metadata[kind].(map[string]any)
				for _, k := range slices.Sorted(maps.Keys(values)) {
					if k != corev1.LastAppliedConfigAnnotation && !strings.HasPrefix(k, v1alpha1.Group+"/") {
						all = findTemplates(all, rulepath.Location{name, kind, k}, values[k])
					}
				}
			}
		default:
			all = findTemplates(all, rulepath.Location{name}, object[name])
		}
	}
	return all
}

// findTemplates adds the templates in a value at a place.
func findTemplates(all []template, location rulepath.Location, v any) []template {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			all = findTemplates(all, append(location, name), v[name])
		}
	case []any:
		for i, below := range v {
			all = findTemplates(all, append(location, i), below)
		}
	case string:
		if strings.Contains(v, opened) {
			pieces, err := split(v)
			all = append(all, template{slices.Clone(location), pieces, err})
		}
	}
	return all
}

// split splits a text into pieces.
func split(text string) (pieces []piece, err error) {
	for text != "" {
		i := strings.Index(text, opened)
		if i < 0 {
			return append(pieces, piece{text, false}), nil
		}
		if i > 0 && text[i-1] == '$' {
			pieces, text = append(pieces, piece{text[:i-1] + opened, false}), text[i+len(opened):]
			continue
		}
		end := expressionEnd(text[i+len(opened):])
		if end < 0 {
			return pieces, fmt.Errorf("an expression begins with %s and does not end; %s is %s itself", opened, escaped, opened)
		}
		expression := strings.TrimSpace(text[i+len(opened):][:end])
		if expression == "" {
			return pieces, errors.New("an expression is empty")
		}
		if i > 0 {
			pieces = append(pieces, piece{text[:i], false})
		}
		pieces, text = append(pieces, piece{expression, true}), text[i+len(opened)+end+1:]
	}
	return pieces, nil
}

// expressionEnd returns the end of an expression at the begin of a text: the first closing brace
// that is not part of the expression or its literals; -1 if there is none.
func expressionEnd(text string) int {
	for i, depth := 0, 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"', '\'':
			before := strings.TrimRight(text[max(0, i-2):i], "bB") // of r"", br"" and rb""
			n := literalEnd(text[i:], strings.HasSuffix(strings.ToLower(before), "r"))
			if n < 0 {
				return -1
			}
			i += n - 1
		case '{':
			depth++
		case closed:
			if depth--; depth < 0 {
				return i
			}
		}
	}
	return -1
}

// literalEnd returns the length of the literal at the begin of a text; -1 if it does not end. In a
// raw literal, a backslash is a character.
func literalEnd(text string, raw bool) int {
	quote := text[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(text, triple) {
		quote = triple
	}
	for i := len(quote); i < len(text); i++ {
		switch {
		case text[i] == '\\' && !raw:
			i++
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote)
		}
	}
	return -1
}

// described returns the uses in the form of JSON: true for a variable or field that is used as a
// whole.
func (u uses) described() any {
	if u.whole {
		return true
	}
	all := map[string]any{}
	for p, below := range u.fields {
		all[p.name] = below.described()
	}
	return all
}
