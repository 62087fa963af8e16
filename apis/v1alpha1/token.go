package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LocationToken is the answer to a create of a Location's subresource token. It
// is never stored.
type LocationToken struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Status holds the token.
	Status LocationTokenStatus `json:"status"`
}

// LocationTokenStatus is what an agent needs to join.
type LocationTokenStatus struct {
	// Token holds the hub's address and authority, the location's name and the
	// secret. It is shown once; the hub keeps a hash of the secret.
	Token string `json:"token"`
}
