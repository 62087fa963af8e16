//go:build ignore

// Generate takes the OpenAPI documents of the built-in kinds out of the
// Kubernetes module, drops what spaces do not serve, and packs the rest:
//
//	GROUPVERSION.json.gz       OpenAPI v3, "/" in the name as "__"
//	v2.json.gz, v2.pb.gz       OpenAPI v2, of all groups
//	index.json                 the resources that each v3 document describes
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/handler"
)

// object is a JSON object.
type object = map[string]any

func main() {
	version := flag.String("kubernetes", "", "version of the module k8s.io/kubernetes")
	out := flag.String("out", "openapi", "folder for the documents")
	flag.Parse()
	if err := generate(*version, *out); err != nil {
		log.Fatal(err)
	}
}

func generate(version, out string) error {
	dir, err := source(version)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "v3", "api*_openapi.json"))
	if err != nil {
		return err
	}
	index := map[string][]string{}
	served := regexp.MustCompile(`^(api|apis__.*)__v[0-9]+$`)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "_openapi.json")
		if !served.MatchString(name) {
			continue
		}
		document, err := read(file)
		if err != nil {
			return err
		}
		paths := document["paths"].(object)
		trimPaths(paths)
		trimSchemas(document["components"].(object)["schemas"].(object), "#/components/schemas/", paths)
		if err := write(filepath.Join(out, name+".json.gz"), document); err != nil {
			return err
		}
		root := strings.ReplaceAll(name, "__", "/")
		index[root] = resources(paths, "/"+root+"/")
	}
	data, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "index.json"), append(data, '\n'), 0o644); err != nil {
		return err
	}
	return generateV2(filepath.Join(dir, "swagger.json"), out, index)
}

func source(version string) (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes@"+version)
	cmd.Stderr = os.Stderr
	data, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("download Kubernetes %q: %w", version, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(data, &module); err != nil {
		return "", fmt.Errorf("download Kubernetes %q: %w", version, err)
	}
	if module.Dir == "" {
		return "", errors.New("download Kubernetes: no folder")
	}
	return filepath.Join(module.Dir, "api", "openapi-spec"), nil
}

func generateV2(file, out string, index map[string][]string) error {
	document, err := read(file)
	if err != nil {
		return err
	}
	paths := document["paths"].(object)
	trimPaths(paths)
	for path := range paths {
		root, _, _ := cutVersion(path)
		if _, ok := index[root]; !ok {
			delete(paths, path)
		}
	}
	trimSchemas(document["definitions"].(object), "#/definitions/", paths)
	if err := write(filepath.Join(out, "v2.json.gz"), document); err != nil {
		return err
	}
	data, err := json.Marshal(document)
	if err != nil {
		return err
	}
	proto, err := handler.ToProtoBinary(data)
	if err != nil {
		return fmt.Errorf("encode OpenAPI v2: %w", err)
	}
	return writeBytes(filepath.Join(out, "v2.pb.gz"), proto)
}

// cutVersion splits a path behind its version.
func cutVersion(path string) (root, rest string, ok bool) {
	s := strings.Split(strings.TrimPrefix(path, "/"), "/")
	n := 2
	if s[0] == "apis" {
		n = 3
	}
	if len(s) < n {
		return "", "", false
	}
	return strings.Join(s[:n], "/"), strings.Join(s[n:], "/"), true
}

// trimPaths keeps the objects themselves, their status and their scale, and
// questions of clients about themselves.
func trimPaths(paths object) {
	gone := regexp.MustCompile(`/watch/|/v[0-9]+/(namespaces/\{namespace\}/(bindings|localsubjectaccessreviews)|subjectaccessreviews|tokenreviews|componentstatuses.*)$`)
	sub := regexp.MustCompile(`/\{name\}/(.+)$`)
	for path := range paths {
		m := sub.FindStringSubmatch(path)
		if gone.MatchString(path) || m != nil && m[1] != "status" && m[1] != "scale" {
			delete(paths, path)
		}
	}
}

// trimSchemas drops the schemas that nothing in paths leads to.
func trimSchemas(schemas object, prefix string, paths object) {
	used := map[string]bool{}
	var visit func(any)
	visit = func(v any) {
		switch v := v.(type) {
		case object:
			if ref, ok := v["$ref"].(string); ok {
				if name, ok := strings.CutPrefix(ref, prefix); ok && !used[name] {
					used[name] = true
					visit(schemas[name])
				}
			}
			for _, child := range v {
				visit(child)
			}
		case []any:
			for _, child := range v {
				visit(child)
			}
		}
	}
	visit(paths)
	for name := range schemas {
		if !used[name] {
			delete(schemas, name)
		}
	}
}

func resources(paths object, root string) []string {
	var names []string
	for path := range paths {
		s := strings.Split(strings.TrimPrefix(path, root), "/")
		if len(s) > 2 && s[1] == "{namespace}" {
			s = s[2:]
		}
		if s[0] != "" && !slices.Contains(names, s[0]) {
			names = append(names, s[0])
		}
	}
	slices.Sort(names)
	return names
}

func read(file string) (object, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var document object
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("read %q: %w", file, err)
	}
	return document, nil
}

func write(file string, document object) error {
	data, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return writeBytes(file, data)
}

func writeBytes(file string, data []byte) error {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, packed.Bytes(), 0o644)
}
