// Command reference prints a Markdown reference of the kinds whose
// CustomResourceDefinitions are in a directory.
package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reference DIRECTORY")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func run(dir string, out io.Writer) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%q holds no definitions", dir)
	}
	w := &bytes.Buffer{}
	fmt.Fprint(w, "<!-- Made by `make generate` from apis/; edits are lost. -->\n\n# Kinds\n\n")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var crd apiextensions.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(data, &crd); err != nil {
			return fmt.Errorf("read %q: %w", file, err)
		}
		for _, version := range crd.Spec.Versions {
			kind(w, &crd, version)
		}
	}
	_, err = w.WriteTo(out)
	return err
}

// kind prints one kind in one version.
func kind(w *bytes.Buffer, crd *apiextensions.CustomResourceDefinition, version apiextensions.CustomResourceDefinitionVersion) {
	names, schema := crd.Spec.Names, version.Schema.OpenAPIV3Schema
	fmt.Fprintf(w, "## %s\n\n`%s/%s`, resource `%s`", names.Kind, crd.Spec.Group, version.Name, names.Plural)
	if len(names.ShortNames) > 0 {
		fmt.Fprintf(w, " (`%s`)", strings.Join(names.ShortNames, "`, `"))
	}
	scope := "cluster-scoped"
	if crd.Spec.Scope == apiextensions.NamespaceScoped {
		scope = "namespaced"
	}
	fmt.Fprintf(w, ", %s\n\n%s\n\n", scope, schema.Description)
	for _, rule := range schema.XValidations {
		fmt.Fprintf(w, "Refused otherwise: %s\n\n", oneLine(rule.Message))
	}
	fmt.Fprint(w, "| field | type | meaning |\n|---|---|---|\n")
	for _, section := range []string{"spec", "status"} {
		if s, ok := schema.Properties[section]; ok {
			field(w, section, s, slices.Contains(schema.Required, section))
		}
	}
	fmt.Fprintln(w)
}

// field prints a field and those below it.
func field(w *bytes.Buffer, path string, s apiextensions.JSONSchemaProps, required bool) {
	fmt.Fprintf(w, "| `%s` | %s | %s |\n", path, typeOf(s), strings.Join(facts(s, required), " "))
	inner := s
	switch {
	case s.Items != nil && s.Items.Schema != nil:
		inner, path = *s.Items.Schema, path+"[]"
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		inner, path = *s.AdditionalProperties.Schema, path+".*"
	}
	if wellKnown(inner) != "" {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(inner.Properties)) {
		field(w, path+"."+name, inner.Properties[name], slices.Contains(inner.Required, name))
	}
}

// wellKnown returns the name of a type that Kubernetes documents, or nothing.
func wellKnown(s apiextensions.JSONSchemaProps) string {
	for name, fields := range map[string][]string{
		"label selector": {"matchExpressions", "matchLabels"},
		"Condition":      {"lastTransitionTime", "message", "observedGeneration", "reason", "status", "type"},
	} {
		if slices.Equal(slices.Sorted(maps.Keys(s.Properties)), fields) {
			return name
		}
	}
	return ""
}

func typeOf(s apiextensions.JSONSchemaProps) string {
	switch {
	case wellKnown(s) != "":
		return wellKnown(s)
	case s.Items != nil && s.Items.Schema != nil:
		return "list of " + typeOf(*s.Items.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(*s.AdditionalProperties.Schema)
	case s.XIntOrString:
		return "integer or string"
	case s.Type == "":
		return "any"
	case s.Format != "" && s.Type == "string":
		return s.Format
	}
	return s.Type
}

// facts describes a field, with a sentence for each fact.
func facts(s apiextensions.JSONSchemaProps, required bool) []string {
	var facts []string
	if required {
		facts = append(facts, "Required.")
	}
	if s.Description != "" {
		facts = append(facts, oneLine(s.Description))
	}
	if s.Default != nil {
		facts = append(facts, fmt.Sprintf("Default: `%s`.", s.Default.Raw))
	}
	var enum []string
	for _, value := range s.Enum {
		enum = append(enum, fmt.Sprintf("`%s`", value.Raw))
	}
	if len(enum) > 0 {
		facts = append(facts, "One of "+strings.Join(enum, ", ")+".")
	}
	rules := s.XValidations
	if s.Items != nil && s.Items.Schema != nil {
		rules = slices.Concat(rules, s.Items.Schema.XValidations)
	}
	for _, rule := range rules {
		facts = append(facts, "Refused otherwise: "+oneLine(rule.Message)+".")
	}
	return facts
}

// oneLine makes text fit into a cell.
func oneLine(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
