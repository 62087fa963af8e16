package kubeclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// aggregated asks for aggregated discovery.
	aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
	// apiDigest is the number of digits of a schema's hash in its digest.
	apiDigest = 16
	// current is the freshness of a version whose server answers discovery.
	current = "Current"
)

// groupDiscovery is one group in aggregated discovery.
type groupDiscovery struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Versions []versionDiscovery `json:"versions"`
}

type versionDiscovery struct {
	Version   string              `json:"version"`
	Freshness string              `json:"freshness"`
	Resources []resourceDiscovery `json:"resources"`
}

type resourceDiscovery struct {
	Resource     string `json:"resource"`
	Scope        string `json:"scope"`
	ResponseKind struct {
		Kind string `json:"kind"`
	} `json:"responseKind"`
	Verbs []string `json:"verbs"`
}

// discovery returns the APIs that the target serves, by group.
func (t *Discovery) discovery(ctx context.Context) ([]groupDiscovery, error) {
	var all []groupDiscovery
	for _, root := range []string{"/api", "/apis"} {
		var l struct {
			Items []groupDiscovery `json:"items"`
		}
		if err := t.do(ctx, request{verb: "discover", method: http.MethodGet, path: root, accept: aggregated}, &l); err != nil {
			return nil, fmt.Errorf("discover the APIs below %q: %w", root, err)
		}
		all = append(all, l.Items...)
	}
	return all, nil
}

// APIs returns the groups and versions that the target serves, sorted, with the digests of
// their schemas where it publishes them.
func (t *Discovery) APIs(ctx context.Context) ([]wire.API, error) {
	groups, err := t.discovery(ctx)
	if err != nil {
		return nil, err
	}
	hashes, err := t.schemaHashes(ctx)
	if err != nil {
		return nil, err
	}
	var all []wire.API
	for _, g := range groups {
		for _, v := range g.Versions {
			gv, root := v.Version, "api/"+v.Version
			if g.Metadata.Name != "" {
				gv = g.Metadata.Name + "/" + v.Version
				root = "apis/" + gv
			}
			api := wire.API{GroupVersion: gv, Digest: hashes[root]}
			for _, r := range v.Resources {
				api.Resources = append(api.Resources, r.Resource)
			}
			slices.Sort(api.Resources)
			all = append(all, api)
		}
	}
	slices.SortFunc(all, func(a, b wire.API) int { return cmp.Compare(a.GroupVersion, b.GroupVersion) })
	return all, nil
}

// schemaHashes returns prefixes of the hashes of the target's OpenAPI documents, by the
// path of the group and version.
func (t *Discovery) schemaHashes(ctx context.Context) (map[string]string, error) {
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := t.do(ctx, request{verb: "discover", method: http.MethodGet, path: "/openapi/v3", accept: fullAnswer}, &index); err != nil {
		return nil, fmt.Errorf("discover schemas: %w", err)
	}
	hashes := map[string]string{}
	for path, document := range index.Paths {
		u, err := url.Parse(document.URL)
		if err != nil {
			continue // the API then has an empty digest
		}
		hash := u.Query().Get("hash")
		hashes[path] = hash[:min(apiDigest, len(hash))]
	}
	return hashes, nil
}

// ErrStale is returned when discovery does not contain all APIs.
var ErrStale = errors.New("the target does not know now which resources this API serves")

// Removable returns every resource whose objects can be listed and deleted, each in its
// preferred version. With ErrStale it returns the known ones; there may be more.
func (t *Discovery) Removable(ctx context.Context) ([]Served, error) {
	return t.withVerbs(ctx, "list", "delete")
}

// Watchable is Removable of the resources whose objects can be listed and watched.
func (t *Discovery) Watchable(ctx context.Context) ([]Served, error) {
	return t.withVerbs(ctx, "list", "watch")
}

// withVerbs returns every resource that supports all of the verbs.
func (t *Discovery) withVerbs(ctx context.Context, verbs ...string) ([]Served, error) {
	groups, err := t.discovery(ctx)
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		return nil, errHollow
	}
	var all []Served
	for _, g := range groups {
		known := map[string]bool{}
		for _, v := range g.Versions { // in the order of preference
			if v.Freshness != current {
				err = fmt.Errorf("discover %q: %w", strings.TrimPrefix(g.Metadata.Name+"/"+v.Version, "/"), ErrStale)
			}
			for _, r := range v.Resources {
				if known[r.Resource] || slices.ContainsFunc(verbs, func(v string) bool { return !slices.Contains(r.Verbs, v) }) {
					continue
				}
				known[r.Resource] = true
				all = append(all, Served{
					Place: Place{key.NewResource(g.Metadata.Name, r.Resource), v.Version},
					Kind:  r.ResponseKind.Kind, Namespaced: r.Scope == namespacedScope,
				})
			}
		}
	}
	return all, err
}
