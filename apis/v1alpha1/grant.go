package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Grant gives users rights in its space. The rights of all Grants add up; a request that no Grant
// allows is refused. A Grant in the space root can apply to other spaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=orrery
// +kubebuilder:printcolumn:name="Subjects",type=string,JSONPath=`.spec.subjects`
// +kubebuilder:printcolumn:name="Roles",type=string,JSONPath=`.spec.roles`
// +kubebuilder:printcolumn:name="Spaces",type=string,JSONPath=`.spec.spaces`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Grant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec defines the subjects and their rights.
	Spec GrantSpec `json:"spec"`
}

// GrantSpec defines subjects and their rights. The user that writes it needs all of these rights in
// all selected spaces, or the verb escalate on grants.
//
// +kubebuilder:validation:XValidation:rule="has(self.roles) || has(self.rules)",message="a grant needs roles, rules, or both"
// +kubebuilder:validation:XValidation:rule="!has(self.spaces) || !has(self.rules) || self.rules.all(r, !has(r.nonResourceURLs))",message="nonResourceURLs are of the hub, not of the spaces that a grant reaches"
type GrantSpec struct {
	// Subjects are the users and groups that get the rights.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Subjects []GrantSubject `json:"subjects"`
	// Roles are built-in roles.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Roles []GrantRole `json:"roles,omitempty"`
	// Rules give single rights, with the semantics of RBAC rules.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Rules []GrantRule `json:"rules,omitempty"`
	// Spaces selects the spaces to which a Grant in the space root applies, instead of root. It
	// never selects root. When absent, the Grant applies to its own space.
	// +optional
	Spaces *SpaceSelector `json:"spaces,omitempty"`
}

// GrantSubject is a user or a group.
type GrantSubject struct {
	// Kind is User or Group.
	// +kubebuilder:validation:Enum=User;Group
	Kind GrantSubjectKind `json:"kind"`
	// Name is the name of the user or group, as the hub authenticates it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name"`
}

// GrantSubjectKind is the kind of a subject: User or Group.
type GrantSubjectKind string

const (
	// GrantSubjectUser is a single user.
	GrantSubjectUser GrantSubjectKind = "User"
	// GrantSubjectGroup is all users of a group.
	GrantSubjectGroup GrantSubjectKind = "Group"
)

// GrantRole gives a built-in role.
type GrantRole struct {
	// Name is view, edit or admin. view reads everything except Secrets, Grants and live objects of
	// clusters. edit also reads Secrets and live objects except Secrets, and writes Namespaces and
	// namespaced objects, but not RBAC, quotas, limit ranges or Orrery's own kinds. admin has all
	// rights in the space.
	Name RoleName `json:"name"`
	// Namespaces limits the role to these namespaces. When absent, it applies to all namespaces and
	// to cluster-scoped objects. A role with namespaces can only read the Namespaces themselves.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
}

// RoleName is the name of a built-in role.
//
// +kubebuilder:validation:Enum=view;edit;admin
type RoleName string

const (
	// RoleView reads everything except Secrets and Grants.
	RoleView RoleName = "view"
	// RoleEdit also reads Secrets, and writes namespaced objects.
	RoleEdit RoleName = "edit"
	// RoleAdmin has all rights in its space.
	RoleAdmin RoleName = "admin"
)

// GrantRule gives verbs on resources or on paths, with the semantics of a Kubernetes RBAC rule.
//
// +kubebuilder:validation:XValidation:rule="has(self.nonResourceURLs) ? !has(self.apiGroups) && !has(self.resources) && !has(self.resourceNames) && !has(self.namespaces) : has(self.apiGroups) && has(self.resources)",message="a rule needs apiGroups and resources, or nonResourceURLs alone"
type GrantRule struct {
	// Verbs are the allowed verbs, such as get, list, watch, create, update, patch, delete,
	// deletecollection; "*" is all.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Verbs []string `json:"verbs"`
	// APIGroups are the API groups of the resources: "" is the core group, "*" all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	APIGroups []string `json:"apiGroups,omitempty"`
	// Resources are plural names in lower case, with a subresource as in deployments/scale; "*" is
	// all resources, and */scale is that subresource of all resources.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Resources []string `json:"resources,omitempty"`
	// ResourceNames limits the rule to objects with these names; all objects when absent.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	ResourceNames []string `json:"resourceNames,omitempty"`
	// Namespaces limits the rule to these namespaces. When absent, it applies to all namespaces and
	// to cluster-scoped objects.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
	// NonResourceURLs are paths of the hub, such as /metrics; a "*" at the end matches any suffix.
	// They are allowed only in the space root.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*|/.*)$`
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`
}

// SpaceSelector selects spaces by label, by name, or by both. A selector without names
// never selects root.
//
// +kubebuilder:validation:XValidation:rule="has(self.selector) || has(self.names)",message="give a selector, names, or both; an empty selector selects all spaces"
type SpaceSelector struct {
	// Selector selects by label; the empty selector selects all.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Names selects by name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=40
	Names []string `json:"names,omitempty"`
}

// GrantList is a list of grants.
//
// +kubebuilder:object:root=true
type GrantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Grant `json:"items"`
}
