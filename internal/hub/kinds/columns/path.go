package columns

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// path is the part of a JSONPath, as kubectl has it, of which the first result takes at most one
// walk through an object: names, indexes, slices, and filters that compare with a literal.
// Every step goes one level down, so no path can have more results than the object has values.
type path []step

// step selects values in a value. Exactly one of its fields is set.
type step struct {
	// name is a field of an object.
	name *string
	// slice is a range of a list.
	slice *slice
	// filter selects items of a list.
	filter *filter
}

// slice is a range of a list. Negative positions count from the end.
type slice struct {
	from int
	// to is nil for the end of the list.
	to *int
}

// filter compares a value in each item with a literal.
type filter struct {
	// left leads from an item to the value. It has names only.
	left path
	// operator is equal, notEqual or exists.
	operator string
	right    any
}

const (
	equal    = "=="
	notEqual = "!="
	exists   = ""
)

// maxPath is how many bytes a path may have.
const maxPath = 1024

var (
	errUnion      = errors.New("a union, [a,b], may have very many results: give each value a column of its own")
	errRecursive  = errors.New("a recursive descent, .., may have very many results: name each field on the way")
	errAnyField   = errors.New("the wildcard .* has no order: name the field, or use [*] for a list")
	errFilter     = errors.New(`a filter must compare a field with a literal, such as [?(@.type=="Ready")]`)
	errLong       = fmt.Errorf("must have at most %d bytes", maxPath)
	errBeginning  = errors.New("must begin with a dot")
	errUnfinished = errors.New("a bracket is not closed")
)

// parsePath parses the JSONPath of a column. It refuses what is outside the subset.
func parsePath(text string) (path, error) {
	if len(text) > maxPath {
		return nil, errLong
	}
	if !strings.HasPrefix(text, ".") {
		return nil, errBeginning
	}
	var all path
	for rest := text; rest != ""; {
		var steps path
		var err error
		switch {
		case rest[0] == '.':
			steps, rest, err = parseName(rest[1:])
		case strings.HasPrefix(rest, "[?("):
			steps, rest, err = parseFilter(rest[len("[?("):])
		case rest[0] == '[':
			steps, rest, err = parseBracket(rest[1:])
		case rest[0] == '$', rest[0] == '@': // Kubernetes passes over both
			steps, rest, err = parseWord(rest[1:])
		default:
			return nil, fmt.Errorf("%q can't be read: use names, indexes, slices and filters, such as .status.conditions[0].type", rest)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, steps...)
	}
	return all, nil
}

// parseName parses a name behind its dot.
func parseName(text string) (steps path, rest string, err error) {
	if strings.HasPrefix(text, ".") {
		return nil, "", errRecursive
	}
	end := 0
	for end < len(text) && !strings.ContainsRune(" \t\r\n.,[]$@{}", rune(text[end])) {
		if text[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(text))
	name := strings.ReplaceAll(text[:end], `\`, "")
	if name == "*" {
		return nil, "", errAnyField
	}
	if end < len(text) && !strings.ContainsRune(".[$@", rune(text[end])) {
		return nil, "", fmt.Errorf("%q can't be read: write \\ before special characters of a name", text[end:])
	}
	return path{{name: &name}}, text[end:], nil
}

// words are what Kubernetes reads as keywords behind a $ or @. Those that it does not know have no result.
var words = regexp.MustCompile(`^[_a-zA-Z][^ \t\r\n.,\[\]$@{}]*`)

// parseWord parses the text behind a $ or @, such as ref in .spec.$ref: to Kubernetes that is no name.
func parseWord(text string) (steps path, rest string, err error) {
	switch word := words.FindString(text); word {
	case "":
		return nil, text, nil
	case "true", "false", "range", "end":
		return nil, "", fmt.Errorf("%q can't be read: write \\ before special characters of a name", text)
	default:
		return path{{slice: &slice{to: new(int)}}}, text[len(word):], nil
	}
}

// ranges are an index, a range of indexes, or one of all; there is no step.
var ranges = regexp.MustCompile(`^(-?[0-9]{1,9})?(:(-?[0-9]{1,9})?)?$`)

// parseBracket parses an index, a slice or a quoted name behind its bracket.
func parseBracket(text string) (steps path, rest string, err error) {
	inner, rest, ok := strings.Cut(text, "]")
	if !ok {
		return nil, "", errUnfinished
	}
	if inner == "*" {
		inner = ":"
	}
	if quoted, ok := strings.CutPrefix(inner, "'"); ok && len(quoted) > 0 && strings.IndexByte(quoted, '\'') == len(quoted)-1 {
		// kubectl reads dots in it as it does outside, so these are escaped, too.
		steps, err := parsePath("." + quoted[:len(quoted)-1])
		for _, s := range steps {
			if s.name == nil {
				err = fmt.Errorf("%q must be a name", inner)
			}
		}
		return steps, rest, err
	}
	if strings.Contains(inner, ",") {
		return nil, "", errUnion
	}
	found := ranges.FindStringSubmatch(inner)
	if found == nil || inner == "" {
		return nil, "", fmt.Errorf("[%s] must be an index, a slice without a step, or a name in single quotes", inner)
	}
	s := &slice{}
	if found[1] != "" {
		s.from, _ = strconv.Atoi(found[1])
	}
	switch {
	case found[2] == "": // an index; the one after -1 is the end
		if to := s.from + 1; to != 0 {
			s.to = &to
		}
	case found[3] != "":
		to, _ := strconv.Atoi(found[3])
		s.to = &to
	}
	return path{{slice: s}}, rest, nil
}

// comparison has a path, an operator and a literal.
var comparison = regexp.MustCompile(`^([^!<>="']+)(==|!=)\s*(.+?)\s*$`)

// parseFilter parses a filter behind its "[?(".
func parseFilter(text string) (steps path, rest string, err error) {
	end := filterEnd(text)
	if end < 0 {
		return nil, "", errUnfinished
	}
	inner, rest := text[:end], text[end+len(")]"):]
	f := &filter{operator: exists}
	left := inner
	if found := comparison.FindStringSubmatch(inner); found != nil {
		left, f.operator = found[1], found[2]
		if f.right, err = parseLiteral(found[3]); err != nil {
			return nil, "", err
		}
	} else if strings.ContainsAny(inner, "!<>=") {
		return nil, "", errFilter
	}
	field, ok := strings.CutPrefix(strings.TrimSpace(left), "@")
	if !ok {
		return nil, "", errFilter
	}
	if field != "" {
		if f.left, err = parsePath(field); err != nil {
			return nil, "", errFilter
		}
	}
	for _, s := range f.left {
		if s.name == nil {
			return nil, "", errFilter
		}
	}
	return path{{filter: f}}, rest, nil
}

// filterEnd is where the ")]" of a filter is; negative: nowhere.
func filterEnd(text string) int {
	var quote byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && strings.HasPrefix(text[i:], ")]"):
			return i
		}
	}
	return -1
}

// parseLiteral parses a text in quotes, a number or a boolean.
func parseLiteral(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	switch {
	case text == "true", text == "false":
		return text == "true", nil
	case len(text) < 2 || text[0] != '"' && text[0] != '\'' || text[len(text)-1] != text[0]:
		return nil, errFilter
	}
	inner := text[1 : len(text)-1]
	if strings.ContainsAny(inner, `\`+text[:1]) {
		return nil, errFilter
	}
	return inner, nil
}

// first is the first result of a path in a value; ok is false if there is none. Each step of the
// path visits a value at most once, and all of them together visit at most *budget values.
func (p path) first(value any, budget *int) (result any, ok bool) {
	if *budget--; *budget < 0 {
		return nil, false
	}
	if len(p) == 0 {
		return value, true
	}
	s := p[0]
	if s.name != nil {
		object, _ := value.(map[string]any)
		inner, ok := object[*s.name]
		if !ok {
			return nil, false
		}
		return p[1:].first(inner, budget)
	}
	list, _ := value.([]any)
	if s.slice != nil {
		list = s.slice.items(list)
	}
	for _, item := range list {
		if s.filter != nil && !s.filter.matches(item, budget) {
			continue
		}
		if result, ok := p[1:].first(item, budget); ok {
			return result, true
		}
		if *budget < 0 {
			break
		}
	}
	return nil, false
}

func (s *slice) items(list []any) []any {
	from, to := s.from, len(list)
	if from < 0 {
		from += len(list)
	}
	if s.to != nil {
		if to = *s.to; to < 0 {
			to += len(list)
		}
	}
	to = min(to, len(list))
	if from < 0 || from >= to {
		return nil
	}
	return list[from:to]
}

func (f *filter) matches(item any, budget *int) bool {
	left, ok := f.left.first(item, budget)
	switch {
	case !ok:
		return false
	case f.operator == exists:
		return true
	}
	switch left.(type) {
	case string, bool, int64:
		return (left == f.right) == (f.operator == equal)
	}
	return false
}
