package kinds

import (
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// documents are the OpenAPI descriptions of one version of a CRD, each packed
// and made when it is first asked for.
type documents struct {
	// v3 is a whole document.
	v3 func() ([]byte, error)
	// v2 and v2pb are what the version adds to the document of the built-in
	// kinds, whose definitions it refers to.
	v2, v2pb func() ([]byte, error)
}

func newDocuments(d *definition, version string) *documents {
	docs := &documents{
		v3: sync.OnceValues(func() ([]byte, error) { return d.describeV3(version) }),
		v2: sync.OnceValues(func() ([]byte, error) { return d.describeV2(version) }),
	}
	docs.v2pb = sync.OnceValues(func() ([]byte, error) {
		packed, err := docs.v2()
		if err != nil {
			return nil, err
		}
		data, err := unzip(packed)
		if err != nil {
			return nil, err
		}
		proto, err := handler.ToProtoBinary(data)
		if err != nil {
			return nil, fmt.Errorf("describe %q of CRD %q: encode: %w", version, d.name(), err)
		}
		return zip(proto)
	})
	return docs
}

func (c *Custom) documents() *documents { return c.def.artefacts().documents[c.version.Name] }

func (d *definition) describeV3(version string) ([]byte, error) {
	crd, err := d.unpack()
	if err != nil {
		return nil, err
	}
	document, err := builder.BuildOpenAPIV3(crd, version, builder.Options{IncludeSelectableFields: true})
	if err != nil {
		return nil, fmt.Errorf("describe %q of CRD %q: %w", version, d.name(), err)
	}
	data, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("describe %q of CRD %q: %w", version, d.name(), err)
	}
	return zip(data)
}

func (d *definition) describeV2(version string) ([]byte, error) {
	crd, err := d.unpack()
	if err != nil {
		return nil, err
	}
	document, err := builder.BuildOpenAPIV2(crd, version, builder.Options{V2: true, IncludeSelectableFields: true})
	if err != nil {
		return nil, fmt.Errorf("describe %q of CRD %q: %w", version, d.name(), err)
	}
	own := map[string]bool{}
	for _, kind := range []string{d.names.Kind, d.names.ListKind} {
		own[d.gv(version).WithKind(kind).String()] = true
	}
	for name, s := range document.Definitions {
		if !own[definedKind(s)] {
			delete(document.Definitions, name)
		}
	}
	data, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("describe %q of CRD %q: %w", version, d.name(), err)
	}
	return zip(data)
}

// definedKind is the one kind that a schema says it is of; "" for none or many.
func definedKind(s spec.Schema) string {
	data, err := json.Marshal(s.Extensions["x-kubernetes-group-version-kind"])
	if err != nil {
		return ""
	}
	var kinds []schema.GroupVersionKind
	if err := json.Unmarshal(data, &kinds); err != nil || len(kinds) != 1 {
		return ""
	}
	return kinds[0].String()
}
