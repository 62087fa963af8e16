package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// raw is a JSON object of which only the outermost names have been read.
type raw map[string]json.RawMessage

// within reads the object at a path of names; nil if there is none.
func (r raw) within(path ...string) (raw, error) {
	for _, name := range path {
		value, ok := r[name]
		if !ok {
			return nil, nil
		}
		var object raw
		if err := json.Unmarshal(value, &object); err != nil {
			return nil, fmt.Errorf("read %q: %w", name, err)
		}
		r = object
	}
	return r, nil
}

// set writes the object at a path of names, with what is missing above it.
func (r raw) set(object raw, path ...string) error {
	name := path[0]
	if len(path) > 1 {
		inner, err := r.within(name)
		if err != nil {
			return err
		}
		if inner == nil {
			inner = raw{}
		}
		if err := inner.set(object, path[1:]...); err != nil {
			return err
		}
		object = inner
	}
	data, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("write %q: %w", name, err)
	}
	r[name] = data
	return nil
}

// Source is a compressed document to merge, and the operations to take from it.
type Source struct {
	Packed []byte
	// Keep reports whether to keep an operation on a resource; nil keeps all. A path without
	// operations is dropped.
	Keep func(resource, method string) bool
}

// MergeV3 merges documents into one of an API version.
func MergeV3(gv schema.GroupVersion, documents []Source) ([]byte, error) {
	data, err := merge(documents, Root(gv), "components", "schemas")
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", gv, err)
	}
	return data, nil
}

// MergeV2 merges documents into one of all groups.
func MergeV2(documents []Source) ([]byte, error) { return merge(documents, "", "definitions") }

// merge merges documents into one: the first, with the paths of all, and with the schemas of all at
// schemasAt. Of two schemas with one name, which describe the same type, it takes the first.
func merge(documents []Source, root string, schemasAt ...string) ([]byte, error) {
	var document raw
	paths, schemas := raw{}, raw{}
	for _, p := range documents {
		one, err := p.read()
		if err != nil {
			return nil, err
		}
		if err := p.addPaths(paths, one, root); err != nil {
			return nil, err
		}
		own, err := one.within(schemasAt...)
		if err != nil {
			return nil, err
		}
		addMissing(schemas, own)
		if document == nil {
			document = one
		}
	}
	if err := document.set(schemas, schemasAt...); err != nil {
		return nil, err
	}
	if err := document.set(paths, "paths"); err != nil {
		return nil, err
	}
	return json.Marshal(document)
}

func addMissing(to, from raw) {
	for name, value := range from {
		if _, ok := to[name]; !ok {
			to[name] = value
		}
	}
}

func (p Source) read() (raw, error) {
	data, err := Unpack(p.Packed)
	if err != nil {
		return nil, err
	}
	var document raw
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("read OpenAPI: %w", err)
	}
	return document, nil
}

func (p Source) addPaths(to, document raw, root string) error {
	paths, err := document.within("paths")
	if err != nil {
		return err
	}
	for path, item := range paths {
		resource := ""
		if p.Keep != nil {
			resource = resourceIn(path, root)
		}
		if resource == "" {
			to[path] = item
			continue
		}
		operations, err := paths.within(path)
		if err != nil {
			return err
		}
		before := len(operations)
		maps.DeleteFunc(operations, func(name string, _ json.RawMessage) bool {
			return slices.Contains(httpMethods, name) && !p.Keep(resource, name)
		})
		switch {
		case len(operations) == before:
			to[path] = item
		case slices.ContainsFunc(slices.Collect(maps.Keys(operations)), func(name string) bool { return slices.Contains(httpMethods, name) }):
			if err := to.set(operations, path); err != nil {
				return err
			}
		}
	}
	return nil
}

var httpMethods = []string{"get", "put", "post", "patch", "delete", "options", "head"}

// resourceIn is the resource that a path below a version's root is about; ""
// for the root itself.
func resourceIn(path, root string) string {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(path, "/"), root+"/")
	if !ok {
		return ""
	}
	s := strings.Split(rest, "/")
	if len(s) > 2 && s[0] == "namespaces" && s[1] == "{namespace}" {
		return s[2]
	}
	return s[0]
}
