// Package refs returns the references by name of an object to other objects that it needs at a
// location: the ConfigMaps, Secrets, ServiceAccounts and claims of Pods, the Secrets of
// ServiceAccounts and of Ingresses, and the CRD of a custom resource.
//
// It is pure. References lead only from a kind to kinds of a higher Rank, so chains of references
// end. It must never return a reference to an object that each cluster creates by itself, and never
// use other fields of an object than names.
package refs

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"
	corev1 "k8s.io/api/core/v1"

	"orrery.dev/orrery/internal/protocol/key"
)

// rootCertificates is the ConfigMap that every cluster creates in each namespace.
const rootCertificates = "kube-root-ca.crt"

// maxName is the length of the longest name that an object may have.
const maxName = 253

// References returns the identities to which an object refers, sorted and without duplicates. They need not
// exist.
func References(id key.Identity, value []byte) []key.Identity {
	c := collector{namespace: id.Namespace}
	switch path, isWorkload := podSpecPath(id.Resource); {
	case isWorkload:
		c.podSpec(value, path)
		if id.Resource == key.NewResource("apps", "statefulsets") {
			c.claimTemplates(value)
		}
	case id.Resource == ServiceAccounts.Resource():
		c.serviceAccount(value)
	case id.Resource == key.NewResource("networking.k8s.io", "ingresses"):
		for _, name := range gjson.GetBytes(value, "spec.tls.#.secretName").Array() {
			c.add(Secrets, name.String())
		}
	case !id.Resource.Builtin():
		return []key.Identity{{Resource: Definitions.Resource(), Name: id.Resource.Resource + "." + id.Resource.Group}}
	}
	slices.SortFunc(c.all, compare)
	return slices.Compact(c.all)
}

// Can reports whether objects of a resource can refer to others.
func Can(r key.Resource) bool { return !r.Builtin() || slices.Contains(From(), r) }

// From returns the built-in resources whose objects refer to others, all in their own namespace.
func From() []key.Resource {
	return []key.Resource{
		key.NewResource("", "pods"), key.NewResource("", "podtemplates"), key.NewResource("", "replicationcontrollers"),
		key.NewResource("apps", "daemonsets"), key.NewResource("apps", "deployments"), key.NewResource("apps", "replicasets"),
		key.NewResource("apps", "statefulsets"), key.NewResource("batch", "cronjobs"), key.NewResource("batch", "jobs"),
		key.NewResource("networking.k8s.io", "ingresses"), ServiceAccounts.Resource(),
	}
}

func compare(a, b key.Identity) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource.Resource, b.Resource.Resource),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// podSpecPath is where objects of a resource have the spec of their Pods.
func podSpecPath(r key.Resource) (path string, ok bool) {
	switch r {
	case key.NewResource("", "pods"):
		return "spec", true
	case key.NewResource("", "podtemplates"):
		return "template.spec", true
	case key.NewResource("", "replicationcontrollers"), key.NewResource("apps", "deployments"), key.NewResource("apps", "replicasets"),
		key.NewResource("apps", "statefulsets"), key.NewResource("apps", "daemonsets"), key.NewResource("batch", "jobs"):
		return "spec.template.spec", true
	case key.NewResource("batch", "cronjobs"):
		return "spec.jobTemplate.spec.template.spec", true
	}
	return "", false
}

// collector collects what an object in a namespace refers to.
type collector struct {
	namespace string
	all       []key.Identity
}

func (c *collector) add(k Kind, name string) {
	if name == "" || len(name) > maxName || k == ConfigMaps && name == rootCertificates {
		return
	}
	c.all = append(c.all, key.Identity{Resource: k.Resource(), Namespace: c.namespace, Name: name})
}

// decode decodes a field of an object, as far as possible. Objects are validated when they are
// written, and a cluster finds no names in an invalid field.
func decode[T any](value []byte, path string) (decoded T) {
	if raw := gjson.GetBytes(value, path).Raw; raw != "" && json.Unmarshal([]byte(raw), &decoded) != nil {
		return decoded
	}
	return decoded
}

func (c *collector) podSpec(value []byte, path string) {
	spec := decode[corev1.PodSpec](value, path)
	c.add(ServiceAccounts, cmp.Or(spec.ServiceAccountName, spec.DeprecatedServiceAccount))
	for _, s := range spec.ImagePullSecrets {
		c.add(Secrets, s.Name)
	}
	for i := range spec.Volumes {
		c.volume(&spec.Volumes[i])
	}
	for i := range spec.InitContainers {
		c.container(spec.InitContainers[i].Env, spec.InitContainers[i].EnvFrom)
	}
	for i := range spec.Containers {
		c.container(spec.Containers[i].Env, spec.Containers[i].EnvFrom)
	}
	for i := range spec.EphemeralContainers {
		c.container(spec.EphemeralContainers[i].Env, spec.EphemeralContainers[i].EnvFrom)
	}
}

func (c *collector) container(env []corev1.EnvVar, from []corev1.EnvFromSource) {
	for _, f := range from {
		if f.ConfigMapRef != nil {
			c.add(ConfigMaps, f.ConfigMapRef.Name)
		}
		if f.SecretRef != nil {
			c.add(Secrets, f.SecretRef.Name)
		}
	}
	for _, e := range env {
		if e.ValueFrom == nil {
			continue
		}
		if ref := e.ValueFrom.ConfigMapKeyRef; ref != nil {
			c.add(ConfigMaps, ref.Name)
		}
		if ref := e.ValueFrom.SecretKeyRef; ref != nil {
			c.add(Secrets, ref.Name)
		}
	}
}

func (c *collector) volume(v *corev1.Volume) {
	switch {
	case v.ConfigMap != nil:
		c.add(ConfigMaps, v.ConfigMap.Name)
	case v.Secret != nil:
		c.add(Secrets, v.Secret.SecretName)
	case v.PersistentVolumeClaim != nil:
		c.add(Claims, v.PersistentVolumeClaim.ClaimName)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				c.add(ConfigMaps, s.ConfigMap.Name)
			}
			if s.Secret != nil {
				c.add(Secrets, s.Secret.Name)
			}
		}
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		c.claim(&v.Ephemeral.VolumeClaimTemplate.Spec)
	case v.AzureFile != nil:
		c.add(Secrets, v.AzureFile.SecretName)
	default:
		if ref := secretOfDriver(v); ref != nil {
			c.add(Secrets, ref.Name)
		}
	}
}

// secretOfDriver is the Secret by which a storage system is reached.
func secretOfDriver(v *corev1.Volume) *corev1.LocalObjectReference {
	switch {
	case v.CSI != nil:
		return v.CSI.NodePublishSecretRef
	case v.CephFS != nil:
		return v.CephFS.SecretRef
	case v.Cinder != nil:
		return v.Cinder.SecretRef
	case v.FlexVolume != nil:
		return v.FlexVolume.SecretRef
	case v.ISCSI != nil:
		return v.ISCSI.SecretRef
	case v.RBD != nil:
		return v.RBD.SecretRef
	case v.ScaleIO != nil:
		return v.ScaleIO.SecretRef
	case v.StorageOS != nil:
		return v.StorageOS.SecretRef
	}
	return nil
}

// claim adds the claim of which another is to be a copy. The claim itself is made where its
// Pods are.
func (c *collector) claim(spec *corev1.PersistentVolumeClaimSpec) {
	isClaim := func(group *string, kind string) bool {
		return (group == nil || *group == "") && kind == "PersistentVolumeClaim"
	}
	if s := spec.DataSource; s != nil && isClaim(s.APIGroup, s.Kind) {
		c.add(Claims, s.Name)
	}
	if s := spec.DataSourceRef; s != nil && isClaim(s.APIGroup, s.Kind) && (s.Namespace == nil || *s.Namespace == c.namespace) {
		c.add(Claims, s.Name)
	}
}

func (c *collector) claimTemplates(value []byte) {
	for _, t := range decode[[]corev1.PersistentVolumeClaim](value, "spec.volumeClaimTemplates") {
		c.claim(&t.Spec)
	}
}

func (c *collector) serviceAccount(value []byte) {
	for _, field := range []string{"secrets.#.name", "imagePullSecrets.#.name"} {
		for _, name := range gjson.GetBytes(value, field).Array() {
			c.add(Secrets, name.String())
		}
	}
}
