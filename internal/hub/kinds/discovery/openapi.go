package discovery

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler3"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/openapi"
)

// described contains the inputs of the OpenAPI v3 document of one version.
type described struct {
	gv schema.GroupVersion
	// hash changes whenever the document changes.
	hash string
	// builtin is the embedded document, if kinds of it are served.
	builtin *openapi.Document
	customs []*kinds.Kind
	// whole reports whether all operations of builtin are served, so that it need not be unpacked.
	whole bool
}

// describeVersion returns the inputs of the document of a served version.
func (c answers) describeVersion(v versionKinds) (*described, error) {
	embeds, err := openapi.Builtin()
	if err != nil {
		return nil, err
	}
	d := &described{gv: v.gv, whole: true}
	var content strings.Builder
	var served []string
	for _, k := range v.kinds {
		fmt.Fprintf(&content, "%s %d ", k.GVR.Resource, c.Access(k))
		if k.Custom != nil {
			d.customs = append(d.customs, k)
			fmt.Fprintf(&content, "%s\n", k.Custom.Hash())
			continue
		}
		served = append(served, k.GVR.Resource)
		if a := c.Access(k); a != kinds.ReadWrite && a != kinds.Review {
			d.whole = false
		}
	}
	if len(served) > 0 {
		builtin, ok := embeds.V3[openapi.Root(v.gv)]
		if !ok {
			return nil, fmt.Errorf("describe %s: no OpenAPI document", v.gv)
		}
		fmt.Fprintf(&content, "%s\n", builtin.Hash)
		d.builtin = &builtin
		for _, r := range builtin.Resources {
			d.whole = d.whole && slices.Contains(served, r)
		}
	}
	d.hash = etagOf([]byte(content.String()))
	return d, nil
}

// packed returns the stored document, if it can be sent as it is.
func (c answers) packed(d *described) ([]byte, bool, error) {
	switch {
	case d.builtin != nil && d.whole && len(d.customs) == 0:
		return d.builtin.Packed, true, nil
	case d.builtin == nil && len(d.customs) == 1 && c.Access(d.customs[0]) == kinds.ReadWrite:
		data, err := d.customs[0].Custom.OpenAPI().V3()
		return data, true, err
	}
	return nil, false, nil
}

// document makes the document.
func (c answers) document(d *described) ([]byte, error) {
	packed, ok, err := c.packed(d)
	if err != nil {
		return nil, err
	}
	if ok {
		return openapi.Unpack(packed)
	}
	var documents []openapi.Source
	if d.builtin != nil {
		documents = append(documents, openapi.Source{Packed: d.builtin.Packed, Keep: c.keeper(d.gv)})
	}
	for _, k := range d.customs {
		packed, err := k.Custom.OpenAPI().V3()
		if err != nil {
			return nil, err
		}
		documents = append(documents, openapi.Source{Packed: packed, Keep: c.keeper(d.gv)})
	}
	return openapi.MergeV3(d.gv, documents)
}

// keeper keeps the operations that the catalog serves.
func (c answers) keeper(gv schema.GroupVersion) func(resource, method string) bool {
	return func(resource, method string) bool {
		k, ok := c.Lookup(gv.WithResource(resource))
		if !ok {
			return false
		}
		switch c.Access(k) {
		case kinds.ReadOnly:
			return method == "get"
		case kinds.Terminating:
			return method != "post"
		case kinds.Waiting:
			return method == "get" || method == "delete"
		default:
			return true
		}
	}
}

// openAPIIndex lists the documents of all versions, as links.
func (c answers) openAPIIndex() (*handler3.OpenAPIV3Discovery, error) {
	index := &handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	for _, v := range c.versions() {
		d, err := c.describeVersion(v)
		if err != nil {
			return nil, err
		}
		index.Paths[openapi.Root(v.gv)] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: openAPILink(v.gv, d.hash)}
	}
	return index, nil
}

func openAPILink(gv schema.GroupVersion, hash string) string {
	link := url.URL{Path: "/openapi/v3/" + openapi.Root(gv), RawQuery: url.Values{"hash": {hash}}.Encode()}
	return link.String()
}

// openAPIV2Hash names the content of the document of all groups.
func (c answers) openAPIV2Hash() (string, error) {
	embeds, err := openapi.Builtin()
	if err != nil {
		return "", err
	}
	content := strings.Builder{}
	content.WriteString(embeds.V2.Hash)
	for _, k := range c.Kinds() {
		if k.Custom != nil {
			fmt.Fprintf(&content, " %s %s", k.GVR, k.Custom.Hash())
		}
	}
	return etagOf([]byte(content.String())), nil
}
