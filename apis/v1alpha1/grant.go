package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Grant says who may do what in its space. Grants add up; what none allows is
// refused. A Grant in the space root can reach other spaces.
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

	// Spec says who may do what.
	Spec GrantSpec `json:"spec"`
}

// GrantSpec says who may do what. Whoever writes it has to hold all of it, in all
// spaces that it reaches, or the verb escalate on grants.
//
// +kubebuilder:validation:XValidation:rule="has(self.roles) || has(self.rules)",message="a grant needs roles, rules, or both"
// +kubebuilder:validation:XValidation:rule="!has(self.spaces) || !has(self.rules) || self.rules.all(r, !has(r.nonResourceURLs))",message="nonResourceURLs are of the hub, not of the spaces that a grant reaches"
type GrantSpec struct {
	// Subjects are who gets the rights.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Subjects []GrantSubject `json:"subjects"`
	// Roles are given by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Roles []GrantRole `json:"roles,omitempty"`
	// Rules say one by one what may be done, with the semantics of RBAC rules.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Rules []GrantRule `json:"rules,omitempty"`
	// Spaces that a Grant in the space root reaches instead of root itself. It never
	// reaches root. Absent: the Grant is about its own space.
	// +optional
	Spaces *SpaceSelector `json:"spaces,omitempty"`
}

// GrantSubject is a user or a group.
type GrantSubject struct {
	// Kind is User or Group.
	// +kubebuilder:validation:Enum=User;Group
	Kind GrantSubjectKind `json:"kind"`
	// Name is that of the user or group as the hub knows them.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name"`
}

// GrantSubjectKind says what a name is of.
type GrantSubjectKind string

const (
	// GrantSubjectUser is one user.
	GrantSubjectUser GrantSubjectKind = "User"
	// GrantSubjectGroup is everybody in a group.
	GrantSubjectGroup GrantSubjectKind = "Group"
)

// GrantRole gives a role.
type GrantRole struct {
	// Name is view: reads everything but Secrets, Grants, and what clusters have; edit:
	// also Secrets, and what clusters have of all else, and writes what is in namespaces,
	// and Namespaces, but not RBAC, quotas, limit ranges, nor Orrery's own kinds; or
	// admin: everything in the space.
	Name RoleName `json:"name"`
	// Namespaces that the role is about; all, and what is in none, when absent. Of the
	// Namespaces themselves a role with namespaces only reads.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
}

// RoleName is the name of a role that is built in.
//
// +kubebuilder:validation:Enum=view;edit;admin
type RoleName string

const (
	// RoleView reads everything but Secrets and Grants.
	RoleView RoleName = "view"
	// RoleEdit reads Secrets too, and writes what is in namespaces.
	RoleEdit RoleName = "edit"
	// RoleAdmin does everything in its space.
	RoleAdmin RoleName = "admin"
)

// GrantRule says what may be done with some resources, or at some paths, with the
// semantics of a rule of Kubernetes RBAC.
//
// +kubebuilder:validation:XValidation:rule="has(self.nonResourceURLs) ? !has(self.apiGroups) && !has(self.resources) && !has(self.resourceNames) && !has(self.namespaces) : has(self.apiGroups) && has(self.resources)",message="a rule needs apiGroups and resources, or nonResourceURLs alone"
type GrantRule struct {
	// Verbs are what may be done, such as get, list, watch, create, update, patch,
	// delete, deletecollection; "*" is all.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Verbs []string `json:"verbs"`
	// APIGroups of the resources: "" is the core group, "*" all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	APIGroups []string `json:"apiGroups,omitempty"`
	// Resources are plural names in lower case, with a subresource as in
	// deployments/scale; "*" is all, and */scale that subresource of all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Resources []string `json:"resources,omitempty"`
	// ResourceNames are the only objects that the rule is about; all when absent.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	ResourceNames []string `json:"resourceNames,omitempty"`
	// Namespaces that the rule is about; all, and what is in none, when absent.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
	// NonResourceURLs are paths of the hub, such as /metrics; a "*" at the end stands
	// for anything. Only in the space root.
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
