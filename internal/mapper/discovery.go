package mapper

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/key"
)

// probe checks that the target answers and that its discovery is whole: a
// target that serves no group is broken, not empty.
func (t *target) probe(ctx context.Context) error {
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

// errHollow says that discovery is broken: there is no API server without APIs.
var errHollow = errors.New("discover APIs: the target serves none")

// groups are the target's API groups but the core one. There are some, or
// nothing may be concluded from what is not among them.
func (t *target) groups(ctx context.Context) ([]metav1.APIGroup, error) {
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

// served is a resource that the target serves.
type served struct {
	place
	kind string
}

// namespaced finds every resource whose objects are in namespaces and can be
// listed and deleted. It fails rather than return a part of them.
func (t *target) namespaced(ctx context.Context) ([]served, error) {
	groups, err := t.groups(ctx)
	if err != nil {
		return nil, err
	}
	versions := []string{"v1"}
	for _, g := range groups {
		versions = append(versions, g.PreferredVersion.GroupVersion)
	}
	var all []served
	for i, v := range versions {
		root := "/apis/" + v
		if i == 0 {
			root = "/api/v1"
		}
		var l metav1.APIResourceList
		if err := t.do(ctx, request{verb: "discover", method: http.MethodGet, path: root, accept: fullAnswer}, &l); err != nil {
			return nil, fmt.Errorf("discover the resources of %q: %w", v, err)
		}
		for _, r := range l.APIResources {
			if !r.Namespaced || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") {
				continue
			}
			all = append(all, servedResource(l.GroupVersion, r))
		}
	}
	return all, nil
}

func servedResource(groupVersion string, r metav1.APIResource) served {
	group, version := splitVersion(groupVersion)
	return served{place: place{Resource: key.NewResource(group, r.Name), version: version}, kind: r.Kind}
}

// preferred is the version of a group that its clients should use; empty: the
// target does not serve the group.
func (t *target) preferred(ctx context.Context, group string) (string, error) {
	groups, err := t.groups(ctx)
	if err != nil {
		return "", err
	}
	for _, g := range groups {
		if g.Name == group {
			return g.PreferredVersion.Version, nil
		}
	}
	return "", nil
}

// version is the target's Kubernetes version.
func (t *target) version(ctx context.Context) (string, error) {
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	err := t.do(ctx, request{verb: "discover", method: http.MethodGet, path: "/version", accept: fullAnswer}, &v)
	return v.GitVersion, err
}
