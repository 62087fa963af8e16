// Package clusters is the API of the examples: consumers request KubernetesClusters, and each
// provider creates those of its class.
package clusters

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Finalizer is the finalizer of the provider, which removes its objects before the cluster is deleted.
const Finalizer = "clusters.example.org/provider"

// Label is on the Secrets that a provider creates. The export claims the Secrets with this label.
const (
	Label      = "app.kubernetes.io/managed-by"
	LabelValue = "clusters.example.org"
)

// Version is the group and version of the API.
var Version = schema.GroupVersion{Group: "clusters.example.org", Version: "v1"}

// KubernetesCluster is the request for a cluster.
type KubernetesCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec describes the requested cluster.
	Spec Spec `json:"spec"`
	// Status is written by the provider.
	Status Status `json:"status,omitzero"`
}

// Spec describes the requested cluster.
type Spec struct {
	// Class selects the provider of the cluster.
	Class string `json:"class,omitempty"`
	// Nodes is the requested number of nodes.
	Nodes int64 `json:"nodes,omitempty"`
}

// Status is written by the provider.
type Status struct {
	// Provider is the name of the provider of the cluster.
	Provider string `json:"provider,omitempty"`
	// Endpoint is the URL of the cluster; Secret is the name of the Secret with its credentials.
	Endpoint string `json:"endpoint,omitempty"`
	Secret   string `json:"secret,omitempty"`
	// Nodes is the present number of nodes.
	Nodes int64 `json:"nodes,omitempty"`
}

// KubernetesClusterList is a list of KubernetesClusters.
type KubernetesClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// Items are the clusters.
	Items []KubernetesCluster `json:"items"`
}

// DeepCopyObject returns a copy.
func (c *KubernetesCluster) DeepCopyObject() runtime.Object {
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject returns a copy.
func (l *KubernetesClusterList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = nil
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*KubernetesCluster))
	}
	return &out
}

// Scheme returns a scheme with KubernetesClusters and Secrets.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(Version, &KubernetesCluster{}, &KubernetesClusterList{})
	metav1.AddToGroupVersion(s, Version)
	s.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Secret{}, &corev1.SecretList{})
	metav1.AddToGroupVersion(s, corev1.SchemeGroupVersion)
	return s
}
