package schemacompat

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Contradiction is the first thing that one definition of a resource says so that nothing
// that is right by it, or nothing in one field, can be right where another definition is; nil
// if there is none. Then some objects, or all, fit both.
func Contradiction(there, here *apiextensionsv1.CustomResourceDefinition) *MisfitError {
	differ := func(field, there, here string) *MisfitError {
		return misfit(field, "%s there, %s here", there, here)
	}
	t, h := namesOf(there), namesOf(here)
	var m *MisfitError
	switch {
	case there.Spec.Scope != here.Spec.Scope:
		m = differ("spec.scope", string(there.Spec.Scope), string(here.Spec.Scope))
	case t.Kind != h.Kind:
		m = differ("spec.names.kind", t.Kind, h.Kind)
	case t.ListKind != h.ListKind:
		m = differ("spec.names.listKind", t.ListKind, h.ListKind)
	case t.Singular != h.Singular:
		m = differ("spec.names.singular", t.Singular, h.Singular)
	default:
		m = contradictVersions(there, here)
	}
	if m != nil {
		m.Definitions = true
	}
	return m
}

func contradictVersions(there, here *apiextensionsv1.CustomResourceDefinition) *MisfitError {
	common := false
	for _, h := range here.Spec.Versions {
		t := served(there, h.Name)
		if t == nil || !h.Served {
			continue
		}
		common = true
		if m := contradict("", schemaOf(t), schemaOf(&h)); m != nil {
			m.Field = shorten("versions[" + h.Name + "] " + m.Field)
			return m
		}
	}
	if common {
		return nil
	}
	return misfit("spec.versions", "%s there, %s here", versionsOf(there), versionsOf(here))
}

// served is a version of a definition; nil if it does not serve it.
func served(crd *apiextensionsv1.CustomResourceDefinition, version string) *apiextensionsv1.CustomResourceDefinitionVersion {
	for i, v := range crd.Spec.Versions {
		if v.Name == version && v.Served {
			return &crd.Spec.Versions[i]
		}
	}
	return nil
}

func versionsOf(crd *apiextensionsv1.CustomResourceDefinition) string {
	var all []string
	for _, v := range crd.Spec.Versions {
		if v.Served {
			all = append(all, v.Name)
		}
	}
	return "only " + strings.Join(all, ", ")
}

func schemaOf(v *apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.JSONSchemaProps {
	if v.Schema == nil {
		return nil
	}
	return v.Schema.OpenAPIV3Schema
}

// contradict returns the first field, at or below a path, for which no value is valid by both schemas.
// It visits each field of one schema once.
func contradict(path string, there, here *apiextensionsv1.JSONSchemaProps) *MisfitError {
	if there == nil || here == nil {
		return nil
	}
	t, h := typesOf(there), typesOf(here)
	if t != nil && h != nil && !slices.ContainsFunc(t, func(one string) bool { return slices.Contains(h, one) }) {
		return misfit(locate(path), "%s there, %s here", describe(there), describe(here))
	}
	if apart(there.Enum, here.Enum) {
		return misfit(locate(path), "no value is in the enumerations of both")
	}
	for _, name := range slices.Sorted(maps.Keys(here.Properties)) {
		below := here.Properties[name]
		if other, ok := there.Properties[name]; ok {
			if m := contradict(join(path, name), &other, &below); m != nil {
				return m
			}
		}
	}
	if there.AdditionalProperties != nil && here.AdditionalProperties != nil {
		if m := contradict(path+"[*]", there.AdditionalProperties.Schema, here.AdditionalProperties.Schema); m != nil {
			return m
		}
	}
	if there.Items != nil && here.Items != nil {
		return contradict(path+"[*]", there.Items.Schema, here.Items.Schema)
	}
	return nil
}

func locate(path string) string {
	if path == "" {
		return "(the whole object)"
	}
	return path
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// typesOf returns the types of valid values by a schema; nil for all types.
func typesOf(s *apiextensionsv1.JSONSchemaProps) []string {
	switch {
	case s.XIntOrString:
		return []string{"integer", "string"}
	case s.Type == "":
		return nil
	case s.Type == "number":
		return []string{"number", "integer"}
	}
	return []string{s.Type}
}

func describe(s *apiextensionsv1.JSONSchemaProps) string {
	if s.XIntOrString {
		return "integer or string"
	}
	return s.Type
}

// apart reports whether two enumerations, if both are given, have no value in common.
func apart(a, b []apiextensionsv1.JSON) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	contained := map[string]bool{}
	for _, v := range a {
		contained[plain(v)] = true
	}
	return !slices.ContainsFunc(b, func(v apiextensionsv1.JSON) bool { return contained[plain(v)] })
}

// plain returns the canonical text of a value: equal values have equal texts.
func plain(v apiextensionsv1.JSON) string {
	var value any
	if json.Unmarshal(v.Raw, &value) != nil {
		return string(v.Raw)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return string(v.Raw)
	}
	return string(text)
}
