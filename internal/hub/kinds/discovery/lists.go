package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
)

// answers are those of one catalog.
type answers struct {
	*kinds.Catalog
	merges chan struct{}
}

// verbs are what discovery says can be done with objects of a kind.
func (c answers) verbs(k *kinds.Kind) []string {
	switch c.Access(k) {
	case kinds.ReadOnly:
		return []string{"get", "list", "watch"}
	case kinds.Terminating, kinds.Waiting:
		return []string{"delete", "deletecollection", "get", "list", "watch"}
	case kinds.Review:
		return []string{"create"}
	}
	all := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	if k.Resource == key.Namespaces || k.Resource == key.Spaces {
		// As in Kubernetes: they are emptied one by one.
		return slices.DeleteFunc(all, func(v string) bool { return v == "deletecollection" })
	}
	return all
}

// subverbs are what discovery says can be done with a subresource of a kind.
func (c answers) subverbs(k *kinds.Kind, name string) []string {
	switch {
	case name == kinds.TokenSubresource:
		return []string{"create", "delete"}
	case c.Access(k) == kinds.ReadOnly:
		return []string{"get"}
	}
	return []string{"get", "patch", "update"}
}

// versionKinds is what is served of one version of a group.
type versionKinds struct {
	gv    schema.GroupVersion
	kinds []*kinds.Kind
}

// versions are the versions of all groups, with their kinds, in the order of Kinds.
func (c answers) versions() []versionKinds {
	var versions []versionKinds
	kinds := c.Kinds()
	for start, i := 0, 1; i <= len(kinds); i++ {
		gv := kinds[start].GVR.GroupVersion()
		if i == len(kinds) || kinds[i].GVR.GroupVersion() != gv {
			versions = append(versions, versionKinds{gv, kinds[start:i]})
			start = i
		}
	}
	return versions
}

// version is what is served of a version; it has no kinds if there is none.
func (c answers) version(gv schema.GroupVersion) versionKinds {
	for _, v := range c.versions() {
		if v.gv == gv {
			return v
		}
	}
	return versionKinds{gv: gv}
}

// groups are the groups but core, with their versions from the preferred one on.
func (c answers) groups() []metav1.APIGroup {
	var groups []metav1.APIGroup
	for _, v := range c.versions() {
		if v.gv.Group == "" {
			continue
		}
		version := metav1.GroupVersionForDiscovery{GroupVersion: v.gv.String(), Version: v.gv.Version}
		if n := len(groups); n > 0 && groups[n-1].Name == v.gv.Group {
			groups[n-1].Versions = append(groups[n-1].Versions, version)
			continue
		}
		groups = append(groups, metav1.APIGroup{
			Name:             v.gv.Group,
			Versions:         []metav1.GroupVersionForDiscovery{version},
			PreferredVersion: version,
		})
	}
	return groups
}

// resources are the kinds of one version and their subresources.
func (c answers) resources(v versionKinds) []metav1.APIResource {
	var list []metav1.APIResource
	for _, k := range v.kinds {
		r := metav1.APIResource{
			Name:         k.GVR.Resource,
			SingularName: k.Singular,
			Namespaced:   k.Namespaced,
			Kind:         k.GVK.Kind,
			Verbs:        c.verbs(k),
			ShortNames:   k.ShortNames,
			Categories:   k.Categories,
		}
		if c.Access(k) != kinds.Review {
			r.StorageVersionHash = discovery.StorageVersionHash(k.Storage.Group, k.Storage.Version, k.GVK.Kind)
		}
		list = append(list, r)
		for _, s := range c.subresources(k) {
			r := metav1.APIResource{Name: k.GVR.Resource + "/" + s.name, Namespaced: k.Namespaced, Kind: s.kind.Kind, Verbs: c.subverbs(k, s.name)}
			if s.kind.GroupVersion() != v.gv {
				r.Group, r.Version = s.kind.Group, s.kind.Version
			}
			list = append(list, r)
		}
	}
	return list
}

// aggregate is discovery in one document: of the core group, or of all others.
func (c answers) aggregate(core bool) *apidiscoveryv2.APIGroupDiscoveryList {
	list := &apidiscoveryv2.APIGroupDiscoveryList{}
	for _, v := range c.versions() {
		if (v.gv.Group == "") != core {
			continue
		}
		if n := len(list.Items); n == 0 || list.Items[n-1].Name != v.gv.Group {
			list.Items = append(list.Items, apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: v.gv.Group}})
		}
		version := apidiscoveryv2.APIVersionDiscovery{Version: v.gv.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
		for _, k := range v.kinds {
			version.Resources = append(version.Resources, c.describe(k))
		}
		group := &list.Items[len(list.Items)-1]
		group.Versions = append(group.Versions, version)
	}
	return list
}

func (c answers) describe(k *kinds.Kind) apidiscoveryv2.APIResourceDiscovery {
	r := apidiscoveryv2.APIResourceDiscovery{
		Resource:         k.GVR.Resource,
		ResponseKind:     metaKind(k.GVK),
		Scope:            apidiscoveryv2.ScopeCluster,
		SingularResource: k.Singular,
		Verbs:            c.verbs(k),
		ShortNames:       k.ShortNames,
		Categories:       k.Categories,
	}
	if k.Namespaced {
		r.Scope = apidiscoveryv2.ScopeNamespace
	}
	for _, s := range c.subresources(k) {
		r.Subresources = append(r.Subresources, apidiscoveryv2.APISubresourceDiscovery{
			Subresource:  s.name,
			ResponseKind: metaKind(s.kind),
			Verbs:        c.subverbs(k, s.name),
		})
	}
	return r
}

type subresource struct {
	name string
	kind schema.GroupVersionKind
}

// subresources are those of a kind, by name.
func (c answers) subresources(k *kinds.Kind) []subresource {
	var list []subresource
	if k.Scale != nil {
		list = append(list, subresource{kinds.ScaleSubresource, autoscalingv1.SchemeGroupVersion.WithKind("Scale")})
	}
	if k.HasStatus {
		list = append(list, subresource{kinds.StatusSubresource, k.GVK})
	}
	if k.Resource == key.Locations && c.Access(k) != kinds.ReadOnly {
		list = append(list, subresource{kinds.TokenSubresource, v1alpha1.GroupVersion.WithKind("LocationToken")})
	}
	return list
}

func metaKind(gvk schema.GroupVersionKind) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}

// etagOf names a content.
func etagOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
