package main

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
)

// nameOf is the name of the ith object.
func nameOf(i int) string { return fmt.Sprintf("object-%05d", i) }

// configMap is a ConfigMap whose JSON takes about size bytes, with data.value.
func configMap(namespace, name string, size int, value string) []byte {
	const rest = 170 // what is around the payload
	return encoded(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": namespace, "labels": map[string]string{"app": "bench"}},
		"data":     map[string]string{"value": value, "payload": strings.Repeat("0123456789abcdef", max(0, size-rest)/16)},
	})
}

func namespaceOf(name string) []byte {
	return encoded(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}})
}

func configMaps(namespace string) string { return "/api/v1/namespaces/" + namespace + "/configmaps" }

// placement places what is in a namespace on the locations that are selected.
func placement(name, namespace, resource string, selected v1alpha1.LocationSelector, status v1alpha1.ReturnStatus) []byte {
	return encoded(v1alpha1.Placement{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Placement"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.PlacementSpec{
			Locations: []v1alpha1.LocationSelector{selected},
			Downsync: []v1alpha1.Downsync{{
				ObjectTest:   v1alpha1.ObjectTest{Namespaces: []string{namespace}, Resources: []string{resource}},
				ReturnStatus: status,
			}},
		},
	})
}

func named(locations ...string) v1alpha1.LocationSelector {
	return v1alpha1.LocationSelector{Names: locations}
}

func labelled(key string) v1alpha1.LocationSelector {
	return v1alpha1.LocationSelector{Selector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpExists}},
	}}
}

const (
	orreryAPI      = "/apis/orrery.dev/v1alpha1"
	placementsPath = orreryAPI + "/placements"
	locationsPath  = orreryAPI + "/locations"
)

func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil { // maps, strings and API types
		panic(err)
	}
	return text
}
