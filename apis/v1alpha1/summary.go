package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Summary is a table of what objects of its space, or those that come back from locations,
// say: one row for each object at each location, or for each group of these. kubectl get of
// one prints its rows. Whoever may read a Summary reads in it what its expressions take out
// of objects, so whoever writes one needs the right to list what it matches.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=summaries,shortName=sm,categories=orrery
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.spec.from`
// +kubebuilder:printcolumn:name="Rows",type=integer,JSONPath=`.status.total`
// +kubebuilder:printcolumn:name="Counted",type=integer,JSONPath=`.status.counted`
// +kubebuilder:printcolumn:name="Stale",type=integer,JSONPath=`.status.stale`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="As-Of",type=date,JSONPath=`.status.asOf`
// +kubebuilder:printcolumn:name="Truncated",type=boolean,JSONPath=`.status.truncated`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Summary struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what is summed up, and how.
	Spec SummarySpec `json:"spec"`
	// Status is what came of it. The hub writes it at most once a second, and only when it
	// changes.
	// +optional
	Status SummaryStatus `json:"status,omitempty,omitzero"`
}

// SummarySpec says what is summed up, and how: combine has one row for each group, select one
// for each object at each location.
//
// Expressions are CEL with the libraries of Kubernetes. They have object: as it is in the space
// or, for Upsynced and Associated, as its location reports it; status: its status at the
// location; location: name, labels and properties; sync: state, applied (a boolean), health,
// generation (the one that the location reports about), stale (a boolean), since (a text) and
// error (a text). has(object.spec.x) says whether a field is there.
//
// +kubebuilder:validation:XValidation:rule="has(self.combine) != has(self.select)",message="give combine or select, and not both"
// +kubebuilder:validation:XValidation:rule="!has(self.groupBy) || has(self.combine)",message="groupBy needs combine"
// +kubebuilder:validation:XValidation:rule="!has(self.groupBy) || !has(self.combine) || self.groupBy.all(g, !self.combine.exists(c, c.name == g.name))",message="each column needs a name of its own"
type SummarySpec struct {
	// Match says what is looked at: what any entry matches.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Match []ObjectTest `json:"match"`
	// From says what these are: Downsynced are the objects of the space at each location that
	// they are assigned to; Upsynced those that were born at locations, as Placements ask by
	// upsync; Associated those that belong to placed ones there, as they ask by associated.
	// +optional
	// +kubebuilder:default=Downsynced
	From SummarySource `json:"from,omitempty"`
	// Filter is an expression; what it is false for is left out.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Filter string `json:"filter,omitempty"`
	// GroupBy are the expressions by whose values there are groups. Without any, all is one
	// group.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	GroupBy []SummaryColumnExpression `json:"groupBy,omitempty"`
	// Combine are the columns of groups besides.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Combine []SummaryCombine `json:"combine,omitempty"`
	// Select are the columns of rows that are each about one object at one location.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Select []SummaryColumnExpression `json:"select,omitempty"`
	// Limit is how many rows there are at most. Rows are in the order of groupBy's values, or
	// of select's objects and locations.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Limit int32 `json:"limit,omitempty"`
}

// SummarySource says what a Summary is of.
//
// +kubebuilder:validation:Enum=Downsynced;Upsynced;Associated
type SummarySource string

const (
	// SummaryDownsynced are placed objects; the default.
	SummaryDownsynced SummarySource = "Downsynced"
	// SummaryUpsynced are objects that were born at locations.
	SummaryUpsynced SummarySource = "Upsynced"
	// SummaryAssociated are objects that belong to placed ones at locations.
	SummaryAssociated SummarySource = "Associated"
)

// SummaryColumnExpression is a column whose values an expression gives.
type SummaryColumnExpression struct {
	// Name is the column's.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z][a-zA-Z0-9_.-]*$`
	Name string `json:"name"`
	// Expression gives its value.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression"`
}

// SummaryCombine is a column that combines values of a group.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'COUNT' || has(self.expression)",message="only COUNT needs no expression"
type SummaryCombine struct {
	// Name is the column's.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z][a-zA-Z0-9_.-]*$`
	Name string `json:"name"`
	// Type says how values are combined. Those that are null are left out. Of none, COUNT and
	// SUM are 0, the others null.
	Type SummaryCombineType `json:"type"`
	// Expression gives the values: numbers, quantities or durations; for MIN and MAX also
	// times and texts; for COUNT, which without one counts all, anything.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression,omitempty"`
}

// SummaryCombineType says how values are combined.
//
// +kubebuilder:validation:Enum=COUNT;SUM;AVG;MIN;MAX
type SummaryCombineType string

// How values are combined.
const (
	SummaryCount   SummaryCombineType = "COUNT"
	SummarySum     SummaryCombineType = "SUM"
	SummaryAverage SummaryCombineType = "AVG"
	SummaryMin     SummaryCombineType = "MIN"
	SummaryMax     SummaryCombineType = "MAX"
)

// SummaryStatus is what a Summary has found.
type SummaryStatus struct {
	// ObservedGeneration is the generation of the spec that the rest is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Columns say what each value of a row is.
	// +optional
	// +listType=atomic
	Columns []SummaryColumn `json:"columns,omitempty"`
	// Rows have a value for each column.
	// +optional
	// +listType=atomic
	Rows []SummaryRow `json:"rows,omitempty"`
	// Total is how many rows there are, with those that limit leaves out.
	// +optional
	Total int64 `json:"total,omitempty"`
	// Truncated says that there are more rows than are shown.
	// +optional
	Truncated bool `json:"truncated,omitempty"`
	// Counted is how many objects are in the rows, each once for each of its locations.
	// +optional
	Counted int64 `json:"counted"`
	// Stale is how many of these are at locations that are away: what is known of them is
	// their last report.
	// +optional
	Stale int64 `json:"stale"`
	// Failed is how many are not in the rows since an expression fails for them.
	// +optional
	Failed int64 `json:"failed"`
	// Errors are the first error of each of up to 10 locations.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Errors []SummaryError `json:"errors,omitempty"`
	// AsOf is set while changes have waited to be counted for more than ten seconds: all changes before this
	// time are in the rows. When absent, the rows are up to date.
	// +optional
	AsOf *metav1.Time `json:"asOf,omitempty"`
	// Conditions are Accepted: all tests and expressions can be used; and Complete: all that
	// is to be in the rows is, but for what limit leaves out. Complete is False with the reason Counting
	// while changes, or objects that are counted for the first time, wait.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SummaryRow has a value for each column: JSON, null where there is none. Quantities,
// durations and times are texts.
type SummaryRow []apiextensionsv1.JSON

// SummaryColumn says what a column has.
type SummaryColumn struct {
	// Name is the column's, as in the spec.
	Name string `json:"name"`
	// Type is what all its values are that are not null: integer, number, quantity, duration,
	// time, string, boolean, or any.
	Type SummaryColumnType `json:"type"`
}

// SummaryColumnType is what the values of a column are.
//
// +kubebuilder:validation:Enum=integer;number;quantity;duration;time;string;boolean;any
type SummaryColumnType string

// SummaryError is why nothing of some objects of a location is in the rows.
type SummaryError struct {
	// Location is the name of the location.
	Location string `json:"location"`
	// Message is for people.
	Message string `json:"message"`
}

// SummaryList is a list of summaries.
//
// +kubebuilder:object:root=true
type SummaryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Summary `json:"items"`
}
