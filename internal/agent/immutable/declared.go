package immutable

import (
	"strings"

	"github.com/tidwall/gjson"
)

// maxPath bounds the length of a field's path that is looked up in a schema, in bytes.
const maxPath = 1024

// declared finds the field that a transition rule of a CustomResourceDefinition makes
// immutable, and that the field of a cause names. Only a rule that compares a value with what
// it was, such as self == oldSelf, does that: others may restrict how a value changes.
func declared(definition, version, path string) (Field, bool) {
	if len(path) > maxPath {
		return Field{}, false
	}
	node := schemaOf(definition, version)
	for parent, rest := "", path; node.Exists(); {
		for _, rule := range node.Get("x-kubernetes-validations").Array() {
			if parent+rule.Get("fieldPath").Str != path {
				continue
			}
			if inside, ok := compares(rule.Get("rule").Str); ok {
				whole, _, _ := strings.Cut(strings.TrimPrefix(parent+inside, "."), "[") // a list stays as a whole
				return Field{Paths: []string{whole}}, whole != ""
			}
		}
		if rest == "" {
			break
		}
		var name string
		name, rest = segment(rest)
		node = inside(node, name)
		parent = strings.TrimPrefix(strings.TrimSuffix(path, rest), ".")
	}
	return Field{}, false
}

func schemaOf(definition, version string) gjson.Result {
	for _, v := range gjson.Get(definition, "spec.versions").Array() {
		if v.Get("name").Str == version {
			return v.Get("schema.openAPIV3Schema")
		}
	}
	return gjson.Result{}
}

// segment cuts the first segment from a path: a name, or an index or key in brackets.
func segment(path string) (first, rest string) {
	if path[0] == '[' {
		if end := strings.IndexByte(path, ']'); end > 0 {
			return path[:end+1], path[end+1:]
		}
		return path, ""
	}
	path = strings.TrimPrefix(path, ".")
	if end := strings.IndexAny(path, ".["); end > 0 {
		return path[:end], path[end:]
	}
	return path, ""
}

// inside is the schema of a segment.
func inside(node gjson.Result, name string) gjson.Result {
	if !strings.HasPrefix(name, "[") {
		return member(node.Get("properties"), name)
	}
	if items := node.Get("items"); items.Exists() {
		return items
	}
	return node.Get("additionalProperties")
}

// member finds a member by its name, in which no character has a meaning.
func member(object gjson.Result, name string) (found gjson.Result) {
	object.ForEach(func(k, v gjson.Result) bool {
		if k.Str == name {
			found = v
		}
		return !found.Exists()
	})
	return found
}

// compares reads a rule that a value stays the same. field is the path of the value inside
// of the value with the rule, with a dot in front; empty: it is that value.
func compares(rule string) (field string, ok bool) {
	a, b, found := strings.Cut(strings.Join(strings.Fields(rule), ""), "==")
	if strings.HasPrefix(b, "self") {
		a, b = b, a
	}
	a, isNew := strings.CutPrefix(a, "self")
	b, isOld := strings.CutPrefix(b, "oldSelf")
	if !found || !isNew || !isOld || a != b || a != "" && a[0] != '.' {
		return "", false
	}
	for _, c := range a {
		if c != '.' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return "", false
		}
	}
	return a, true
}
