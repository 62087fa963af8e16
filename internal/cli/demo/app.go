package demo

import (
	"bytes"
	_ "embed" // the application's files
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	shopSpace     = "shop"
	namespace     = "store"
	placementName = "storefront"
	crdName       = "campaigns.shop.example"
	stageLabel    = "stage"
	production    = "prod"
)

//go:embed app/storefront.yaml
var storefrontYAML []byte

//go:embed app/placement.yaml
var placementYAML []byte

// The resources of the application, in the order of the output. campaigns exists only where the CRD
// does.
var (
	builtIn   = []string{"deployments", "services", "configmaps", "ingresses"}
	resources = []string{"deployments", "services", "configmaps", "ingresses", "campaigns"}
)

// parse parses the objects of a YAML file.
func parse(file []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(file), len(file))
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the application: %w", err)
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}
