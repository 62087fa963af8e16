package kubeclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/key"
)

// Probe checks that the target answers and that its discovery works: a target that serves
// no group is broken, not empty.
func (t *Discovery) Probe(ctx context.Context) error {
	var core struct {
		Versions []string `json:"versions"`
	}
	if err := t.do(ctx, request{verb: "discover", method: http.MethodGet, path: "/api", accept: fullAnswer}, &core); err != nil {
		return fmt.Errorf("discover the core API: %w", err)
	}
	if len(core.Versions) == 0 {
		return errHollow
	}
	_, err := t.groups(ctx)
	return err
}

// errHollow is returned when discovery is empty: it is broken, since every API server has APIs.
var errHollow = errors.New("discover APIs: the target serves none")

// groups returns the target's API groups except the core group. It fails if there are none,
// since an empty answer does not show that a group was removed.
func (t *Discovery) groups(ctx context.Context) ([]metav1.APIGroup, error) {
	var l metav1.APIGroupList
	err := t.do(ctx, request{verb: "discover", method: http.MethodGet, path: "/apis", accept: fullAnswer}, &l)
	if err != nil {
		return nil, fmt.Errorf("discover API groups: %w", err)
	}
	if len(l.Groups) == 0 {
		return nil, errHollow
	}
	return l.Groups, nil
}

// Served is a resource that the target serves.
type Served struct {
	Place
	Kind       string
	Namespaced bool
}

// Resources returns the resources that the target serves in a group and version.
func (t *Discovery) Resources(ctx context.Context, groupVersion string) ([]Served, error) {
	group, version := key.SplitVersion(groupVersion)
	root := "/apis/" + groupVersion
	if group == "" {
		root = "/api/" + version
	}
	var l metav1.APIResourceList
	if err := t.do(ctx, request{verb: "discover", method: http.MethodGet, path: root, accept: fullAnswer}, &l); err != nil {
		return nil, fmt.Errorf("discover the resources of %q: %w", groupVersion, err)
	}
	all := make([]Served, 0, len(l.APIResources))
	for _, r := range l.APIResources {
		if !strings.Contains(r.Name, "/") { // no subresource
			all = append(all, Served{Place: Place{Resource: key.NewResource(group, r.Name), Version: version}, Kind: r.Kind, Namespaced: r.Namespaced})
		}
	}
	return all, nil
}

// versions returns the versions of a group, as GROUP/VERSION, the preferred one first; none if
// the target does not serve the group.
func (t *Discovery) versions(ctx context.Context, group string) (all []string, err error) {
	groups, err := t.groups(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if g.Name != group {
			continue
		}
		all = append(all, g.PreferredVersion.GroupVersion)
		for _, v := range g.Versions {
			if v.GroupVersion != g.PreferredVersion.GroupVersion {
				all = append(all, v.GroupVersion)
			}
		}
	}
	return all, nil
}

// Version returns the target's Kubernetes version.
func (t *Discovery) Version(ctx context.Context) (string, error) {
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	err := t.do(ctx, request{verb: "discover", method: http.MethodGet, path: "/version", accept: fullAnswer}, &v)
	return v.GitVersion, err
}

// namespacedScope is the scope of namespaced resources.
const namespacedScope = "Namespaced"

// Definition has the fields of a CustomResourceDefinition that the agent reads.
type Definition struct {
	Kind        string
	Scope       string   // Namespaced or Cluster
	Served      []string // versions
	Established bool
}

// Defines reports whether an identity fits the scope of the definition, which never changes.
func (d *Definition) Defines(id key.Identity) bool {
	return d.Scope == "" || (d.Scope == namespacedScope) == (id.Namespace != "")
}

// DefinitionOf returns the identity of the CustomResourceDefinition of a resource.
func DefinitionOf(r key.Resource) key.Identity {
	return key.Identity{Resource: key.CRDs, Name: r.Resource + "." + r.APIGroup()}
}

// Definition reads a CustomResourceDefinition.
func (t *Discovery) Definition(ctx context.Context, id key.Identity) (d Definition, err error) {
	var crd struct {
		Spec struct {
			Scope string `json:"scope"`
			Names struct {
				Kind string `json:"kind"`
			} `json:"names"`
			Versions []struct {
				Name   string `json:"name"`
				Served bool   `json:"served"`
			} `json:"versions"`
		} `json:"spec"`
		Status struct {
			Conditions []struct {
				Type   string `json:"type"`
				Status string `json:"status"`
			} `json:"conditions"`
		} `json:"status"`
	}
	if err := t.do(ctx, request{verb: "get", method: http.MethodGet, path: CRDs.object(id), accept: fullAnswer}, &crd); err != nil {
		return d, err
	}
	d.Kind, d.Scope = crd.Spec.Names.Kind, crd.Spec.Scope
	for _, v := range crd.Spec.Versions {
		if v.Served {
			d.Served = append(d.Served, v.Name)
		}
	}
	for _, c := range crd.Status.Conditions {
		if c.Type == "Established" && c.Status == "True" {
			d.Established = true
		}
	}
	return d, nil
}

// Find returns a resource from the target's discovery, in the preferred version that serves
// it. The version is empty if the target does not serve the resource.
func (t *Discovery) Find(ctx context.Context, r key.Resource) (Served, error) {
	versions := []string{"v1"}
	if group := r.APIGroup(); group != "" {
		var err error
		if versions, err = t.versions(ctx, group); err != nil {
			return Served{}, err
		}
	}
	for _, v := range versions {
		all, err := t.Resources(ctx, v)
		if MissingKind(err) {
			continue // the version is no longer served
		}
		if err != nil {
			return Served{}, err
		}
		for _, found := range all {
			if found.Resource == r {
				return found, nil
			}
		}
	}
	return Served{}, nil
}

// IsEvent reports whether a resource is that of Events. Hubs never place Events, and a cluster
// may have very many.
func IsEvent(r key.Resource) bool {
	return r.Resource == "events" && (r.APIGroup() == "" || r.APIGroup() == "events.k8s.io")
}
