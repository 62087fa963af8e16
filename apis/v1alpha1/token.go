package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LocationToken is the answer to a create of a Location's subresource token. It
// is never stored.
type LocationToken struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec says what token is to be made.
	// +optional
	Spec LocationTokenSpec `json:"spec,omitempty,omitzero"`
	// Status holds the token.
	Status LocationTokenStatus `json:"status"`
}

// LocationTokenSpec says what token is to be made.
type LocationTokenSpec struct {
	// ExpirationSeconds is for how long the token can be used, by default a day. It
	// works once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
	// Shard is the number, from 1, of the agent that the token is for, where several share the
	// location (spec.shards). 1, which is also the one agent of a location, when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	Shard int32 `json:"shard,omitempty"`
	// Readmit lets in again, without a new token, the agent that is locked out since it has
	// shown a credential that it had renewed, as after a snapshot of its machine was restored.
	// +optional
	Readmit bool `json:"readmit,omitempty"`
}

// LocationTokenStatus is what an agent needs to join.
type LocationTokenStatus struct {
	// Token holds the hub's address and authority, the location's name and the
	// secret, which an agent trades for a credential. It is shown once; the hub
	// keeps a hash of the secret.
	Token string `json:"token"`
	// ExpirationTimestamp is until when it can be used.
	// +optional
	ExpirationTimestamp metav1.Time `json:"expirationTimestamp,omitempty,omitzero"`
}

// Token is a credential of a person or a program: a bearer token, or a certificate of an
// hour at most. It is made, listed and revoked at /admin/v1/tokens of the hub, not
// in a space.
//
// +kubebuilder:resource:scope=Cluster
type Token struct {
	metav1.TypeMeta `json:",inline"`
	// The name is the token's ID, which is no secret.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec says whose the token is.
	Spec TokenSpec `json:"spec"`
	// Status is what the hub made of it.
	// +optional
	Status TokenStatus `json:"status,omitempty"`
}

// TokenList is the answer to a list of tokens.
//
// +kubebuilder:skip
type TokenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Token `json:"items"`
}

// TokenSpec says whose a token is. Whoever makes one for a user and for groups has to be
// allowed to impersonate these; everybody makes tokens for themselves that can do no
// more, and live no longer, than the credential they have.
type TokenSpec struct {
	// User the token is of. Default: with a space, a user of the token's own,
	// orrery:token:ID; else whoever makes it.
	// +optional
	User string `json:"user,omitempty"`
	// Groups the user is in. Default: if the user is whoever makes the token, their groups.
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`
	// Space is the only one that the token is good for. One that is created again under the
	// name is another.
	// +optional
	Space string `json:"space,omitempty"`
	// Role that the token has in the space, whatever Grants there are.
	// +optional
	Role RoleName `json:"role,omitempty"`
	// ExpirationSeconds is how long it lives: 30 days by default, and 366 at most.
	// A certificate lives for an hour at most, which is its default.
	// +optional
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
	// Description says what it is for.
	// +optional
	Description string `json:"description,omitempty"`
	// Request is a certificate signing request, PEM. With it a certificate is made for the
	// request's key instead of a token. Nothing else of the request counts.
	// +optional
	Request string `json:"request,omitempty"`
}

// TokenStatus is what the hub made.
type TokenStatus struct {
	// User and groups that the token is of.
	// +optional
	User string `json:"user,omitempty"`
	// Groups of the user, that of the role included.
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`
	// ExpirationTimestamp is when it ends.
	// +optional
	ExpirationTimestamp metav1.Time `json:"expirationTimestamp,omitempty"`
	// By is the user who made it.
	// +optional
	By string `json:"by,omitempty"`
	// From is the token that it was made with, by its owner for themselves. It ends with that.
	// +optional
	From string `json:"from,omitempty"`
	// Token is shown once, to whoever made it; the hub keeps a hash of it.
	// +optional
	Token string `json:"token,omitempty"`
	// Certificate is the certificate that was asked for, PEM. It is not listed, and can't
	// be revoked.
	// +optional
	Certificate string `json:"certificate,omitempty"`
}
