package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LocationToken is the response to a create request for the subresource token of a Location. The
// hub never stores it.
type LocationToken struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec defines the requested token.
	// +optional
	Spec LocationTokenSpec `json:"spec,omitempty,omitzero"`
	// Status has the token.
	Status LocationTokenStatus `json:"status"`
}

// LocationTokenSpec defines the requested token.
type LocationTokenSpec struct {
	// ExpirationSeconds is the lifetime of the token in seconds; one day by default. The token can
	// be used once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
	// Shard is the number, from 1, of the agent that the token is for, if several agents share the
	// location (spec.shards). 1 when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	Shard int32 `json:"shard,omitempty"`
	// Readmit admits the present agent again without a new token. The hub locks an agent out after
	// it presents a credential that it had already renewed, for example after a snapshot of its
	// machine was restored.
	// +optional
	Readmit bool `json:"readmit,omitempty"`
}

// LocationTokenStatus contains all that an agent needs to join.
type LocationTokenStatus struct {
	// Token contains the hub's address and certificate authority, the location's name and the
	// secret. An agent exchanges it for a credential. It is shown only once; the hub stores only a
	// hash of the secret.
	Token string `json:"token"`
	// ExpirationTimestamp is the time at which the token expires.
	// +optional
	ExpirationTimestamp metav1.Time `json:"expirationTimestamp,omitempty,omitzero"`
}

// Token is a credential of a user or a program: a bearer token, or a certificate that is valid for
// at most one hour. Tokens are created, listed and revoked at /admin/v1/tokens of the hub, and not
// in a space.
//
// +kubebuilder:resource:scope=Cluster
type Token struct {
	metav1.TypeMeta `json:",inline"`
	// The name is the ID of the token, which is not secret.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec defines the user, rights and lifetime of the token.
	Spec TokenSpec `json:"spec"`
	// Status is the issued token.
	// +optional
	Status TokenStatus `json:"status,omitempty"`
}

// TokenList is the response to a list of tokens.
//
// +kubebuilder:skip
type TokenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Token `json:"items"`
}

// TokenSpec defines the user, rights and lifetime of a token. To create a token for another user or
// for groups, a user needs the right to impersonate them. Without that right, a user can create
// tokens for themselves, with no more rights and no longer lifetime than their own credential.
type TokenSpec struct {
	// User is the user of the token. With a space, the default is a user of the token's own,
	// orrery:token:ID; without one, it is the user that creates the token.
	// +optional
	User string `json:"user,omitempty"`
	// Groups are the groups of the user. If the user creates the token for themselves, the default
	// is their own groups.
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`
	// Space is the only space in which the token is valid. The token is not valid in a later space
	// of the same name.
	// +optional
	Space string `json:"space,omitempty"`
	// Role is the role that the token has in the space, in addition to any Grants.
	// +optional
	Role RoleName `json:"role,omitempty"`
	// ExpirationSeconds is the lifetime in seconds: 30 days by default, at most 366 days. For a
	// certificate, default and maximum are one hour.
	// +optional
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
	// Description describes the purpose of the token.
	// +optional
	Description string `json:"description,omitempty"`
	// Request is a PEM-encoded certificate signing request. With it, the hub issues a certificate
	// for the key of the request instead of a token. The hub ignores all other fields of the
	// request.
	// +optional
	Request string `json:"request,omitempty"`
}

// TokenStatus is the issued token.
type TokenStatus struct {
	// User is the user of the token.
	// +optional
	User string `json:"user,omitempty"`
	// Groups are the groups of the user, including the group of the role.
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`
	// ExpirationTimestamp is the time at which the token expires.
	// +optional
	ExpirationTimestamp metav1.Time `json:"expirationTimestamp,omitempty"`
	// Creator is the user that created the token.
	// +optional
	Creator string `json:"by,omitempty"`
	// From is the token with which its owner created this one for themselves. When that token ends,
	// this one ends, too.
	// +optional
	From string `json:"from,omitempty"`
	// Token is the bearer token. The hub returns it once, to the user that creates it, and stores
	// only a hash.
	// +optional
	Token string `json:"token,omitempty"`
	// Certificate is the issued certificate, PEM-encoded. The hub does not list certificates, and
	// can't revoke them.
	// +optional
	Certificate string `json:"certificate,omitempty"`
}
