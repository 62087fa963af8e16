// Package clusters is the API that the examples serve: KubernetesClusters, which consumers ask
// for and providers make, each those of its class.
package clusters

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Finalizer is that of the provider, who takes away what it has made.
const Finalizer = "clusters.example.org/provider"

// Label is on the Secrets that a provider makes, which are those that the export claims.
const (
	Label      = "app.kubernetes.io/managed-by"
	LabelValue = "clusters.example.org"
)

// Version is the group and version of the API.
var Version = schema.GroupVersion{Group: "clusters.example.org", Version: "v1"}

// KubernetesCluster asks for a cluster.
type KubernetesCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is what is asked for.
	Spec Spec `json:"spec"`
	// Status is what the provider says.
	Status Status `json:"status,omitzero"`
}

// Spec is what is asked for.
type Spec struct {
	// Class says who makes the cluster.
	Class string `json:"class,omitempty"`
	// Nodes are how many there are to be.
	Nodes int64 `json:"nodes,omitempty"`
}

// Status is what the provider says.
type Status struct {
	// Provider is who has made the cluster.
	Provider string `json:"provider,omitempty"`
	// Endpoint is the URL of the cluster, and Secret has what it takes to get in.
	Endpoint string `json:"endpoint,omitempty"`
	Secret   string `json:"secret,omitempty"`
	// Nodes are how many there are.
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

// Scheme knows KubernetesClusters, and Secrets.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(Version, &KubernetesCluster{}, &KubernetesClusterList{})
	metav1.AddToGroupVersion(s, Version)
	s.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Secret{}, &corev1.SecretList{})
	metav1.AddToGroupVersion(s, corev1.SchemeGroupVersion)
	return s
}
