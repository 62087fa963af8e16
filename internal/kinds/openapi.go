package kinds

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler3"
)

// described is the OpenAPI v3 document of one version as it would be made now.
type described struct {
	gv schema.GroupVersion
	// hash changes whenever the document does.
	hash string
	// builtin is the embedded document, if kinds of it are served.
	builtin *embedded
	customs []*Kind
	// whole says that all of builtin is served, without limits, so that it
	// need not be read.
	whole bool
}

// describeVersion says what makes up the document of a version that is served.
func (c *Catalog) describeVersion(v versionKinds) (*described, error) {
	embeds, err := builtinDocuments()
	if err != nil {
		return nil, err
	}
	d := &described{gv: v.gv, whole: true}
	var says strings.Builder
	var served []string
	for _, k := range v.kinds {
		fmt.Fprintf(&says, "%s %d ", k.GVR.Resource, c.Access(k))
		if k.Custom != nil {
			d.customs = append(d.customs, k)
			fmt.Fprintf(&says, "%s\n", k.Custom.Hash())
			continue
		}
		served = append(served, k.GVR.Resource)
		if a := c.Access(k); a != ReadWrite && a != Asked {
			d.whole = false
		}
	}
	if len(served) > 0 {
		builtin, ok := embeds[rootOf(v.gv)]
		if !ok {
			return nil, fmt.Errorf("describe %s: no OpenAPI document", v.gv)
		}
		fmt.Fprintf(&says, "%s\n", builtin.hash)
		d.builtin = &builtin
		for _, r := range builtin.resources {
			d.whole = d.whole && slices.Contains(served, r)
		}
	}
	d.hash = etagOf([]byte(says.String()))
	return d, nil
}

// packed returns the document as it is kept, if it need not be made.
func (c *Catalog) packed(d *described) ([]byte, bool, error) {
	switch {
	case d.builtin != nil && d.whole && len(d.customs) == 0:
		return d.builtin.packed, true, nil
	case d.builtin == nil && len(d.customs) == 1 && c.Access(d.customs[0]) == ReadWrite:
		data, err := d.customs[0].Custom.documents().v3()
		return data, true, err
	}
	return nil, false, nil
}

// document makes the document.
func (c *Catalog) document(d *described) ([]byte, error) {
	packed, ok, err := c.packed(d)
	if err != nil {
		return nil, err
	}
	if ok {
		return unzip(packed)
	}
	var parts []part
	if d.builtin != nil {
		parts = append(parts, part{packed: d.builtin.packed, keep: c.keeper(d.gv)})
	}
	for _, k := range d.customs {
		packed, err := k.Custom.documents().v3()
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{packed: packed, keep: c.keeper(d.gv)})
	}
	data, err := merge(parts, "components", "schemas")
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", d.gv, err)
	}
	return data, nil
}

// keeper keeps the operations that the catalog serves.
func (c *Catalog) keeper(gv schema.GroupVersion) func(path, method string) bool {
	return func(path, method string) bool {
		resource := resourceIn(path, rootOf(gv))
		if resource == "" {
			return true
		}
		k, ok := c.Lookup(gv.WithResource(resource))
		if !ok {
			return false
		}
		switch c.Access(k) {
		case ReadOnly:
			return method == "get"
		case Terminating:
			return method != "post"
		default:
			return true
		}
	}
}

// openAPIIndex lists the documents of all versions, as links below a prefix.
func (c *Catalog) openAPIIndex(prefix string) (*handler3.OpenAPIV3Discovery, error) {
	index := &handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	for _, v := range c.versions() {
		d, err := c.describeVersion(v)
		if err != nil {
			return nil, err
		}
		index.Paths[rootOf(v.gv)] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: openAPILink(prefix, v.gv, d.hash)}
	}
	return index, nil
}

func openAPILink(prefix string, gv schema.GroupVersion, hash string) string {
	link := url.URL{Path: prefix + "/openapi/v3/" + rootOf(gv), RawQuery: url.Values{"hash": {hash}}.Encode()}
	return link.String()
}

// openAPIV2Hash names the content of the document of all groups.
func (c *Catalog) openAPIV2Hash() (string, error) {
	embeds, err := builtinDocuments()
	if err != nil {
		return "", err
	}
	says := strings.Builder{}
	says.WriteString(embeds["v2.json"].hash)
	for _, k := range c.Kinds() {
		if k.Custom != nil {
			fmt.Fprintf(&says, " %s %s", k.GVR, k.Custom.Hash())
		}
	}
	return etagOf([]byte(says.String())), nil
}
