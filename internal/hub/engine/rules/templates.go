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
	// maxTemplates bounds the expressions in the texts of one object, and maxTemplateBytes
	// how long they are together.
	maxTemplates, maxTemplateBytes = 64, 16 << 10

	// opened begins an expression in a text, closed ends it, and escaped stands for opened.
	opened, closed, escaped = "${", '}', "$${"
)

var errTooManyTemplates = fmt.Errorf("an object may have %d expressions in its texts, of %d bytes together", maxTemplates, maxTemplateBytes)

// TemplateError says which text of an object can't be expanded, and why.
type TemplateError struct {
	// Path is where it is; empty for all of them.
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

// Reason is the reason of objects that are held for it.
func (f *TemplateError) Reason() string { return v1alpha1.ReasonTemplateFailed }

// FailedRule is nobody: it is the object's own.
func (f *TemplateError) FailedRule() (customizer string, rule int) { return "", 0 }

// piece is a part of a text: as it is, or an expression.
type piece struct {
	text         string
	isExpression bool
}

// template is a text with expressions.
type template struct {
	at     rulepath.Location
	pieces []piece
	// broken says why it can't be used.
	broken error
}

// Templates prepares the templates in an object. Those that can't be used are prepared to
// fail.
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

// programs are those of the expressions in templates, without what can't be used, and none
// if there are too many.
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

// CheckTemplates says which templates in an object can't be used. Texts may be of any type
// that has them below objects and lists.
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
			errs = append(errs, field.Invalid(fieldAt(t.at), shown, err.Error()))
		}
	}
	return errs
}

// fieldAt is the path of a place for clients.
func fieldAt(at rulepath.Location) (path *field.Path) {
	for _, part := range at {
		switch part := part.(type) {
		case int:
			path = path.Index(part)
		case string:
			if strings.ContainsAny(part, "./[] ") && path != nil {
				path = path.Key(part)
			} else {
				path = path.Child(part)
			}
		}
	}
	return path
}

// expand expands the templates in an object, each by the object as it was.
func (e *Engine) expand(r *run) error {
	all := templatesOf(r.object)
	if tooMany(all) {
		return &TemplateError{"", errTooManyTemplates.Error()}
	}
	texts := make([]string, len(all))
	for i, t := range all {
		var err error
		if texts[i], err = e.expanded(r, t); err != nil {
			return &TemplateError{describe(t.at), wire.Brief(err.Error())}
		}
	}
	for i, t := range all {
		set(r.object, t.at, texts[i])
	}
	if err := r.was.check(r.object); err != nil {
		return &TemplateError{"", err.Error()}
	}
	return nil
}

// expanded is the text that a template makes.
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

// textFor is the text of a value: texts are themselves, all else is JSON.
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

// templatesOf finds the templates in an object, in an order. What identifies an object or
// stays in its space has none, nor have keys.
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

// findTemplates adds those in a value, which is at a place.
func findTemplates(all []template, at rulepath.Location, v any) []template {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			all = findTemplates(all, append(at, name), v[name])
		}
	case []any:
		for i, below := range v {
			all = findTemplates(all, append(at, i), below)
		}
	case string:
		if strings.Contains(v, opened) {
			pieces, err := split(v)
			all = append(all, template{slices.Clone(at), pieces, err})
		}
	}
	return all
}

// split takes a text apart.
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

// expressionEnd is where an expression ends that a text begins with: at a brace that is not
// one of the expression's own, nor in one of its literals; -1 if it does not end.
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

// literalEnd is how long the literal is that a text begins with; -1 if it does not end. In a
// raw one, a backslash is a character.
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

// described is what is used, as JSON has it: true for what is used as a whole.
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
