package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Summary is a table about objects of its space, or about objects that locations report. It has one
// row for each object at each location, or for each group of these. kubectl get of one Summary
// prints its rows. Each user that may read a Summary reads the values that its expressions return.
// The user that writes it therefore needs the right to list all matched objects.
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

	// Spec defines the table.
	Spec SummarySpec `json:"spec"`
	// Status contains the table. The hub writes it at most once a second, and only when it changes.
	// +optional
	Status SummaryStatus `json:"status,omitempty,omitzero"`
}

// SummarySpec defines a table. With combine there is one row for each group, with select one row
// for each object at each location, or with forEach for each element of these objects.
//
// Expressions are CEL with the Kubernetes libraries. Variables: object, as it is in the space or,
// for Upsynced and Associated, as its location reports it; status, its status at the location;
// location, with name, labels and properties; sync, with state, applied (bool), health, generation
// (of the report), stale (bool), since (string) and error (string); with forEach also item, an
// element. has(object.spec.x) tests whether a field exists.
//
// +kubebuilder:validation:XValidation:rule="has(self.combine) != has(self.select)",message="give combine or select, and not both"
// +kubebuilder:validation:XValidation:rule="!has(self.groupBy) || has(self.combine)",message="groupBy needs combine"
// +kubebuilder:validation:XValidation:rule="!has(self.groupBy) || !has(self.combine) || self.groupBy.all(g, !self.combine.exists(c, c.name == g.name))",message="each column needs a name of its own"
type SummarySpec struct {
	// Match selects objects: those that match any entry.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Match []ObjectTest `json:"match"`
	// From is the source of the objects. Downsynced: objects of the space at each location that
	// they are assigned to. Upsynced: objects created at locations that Placements select by
	// upsync. Associated: objects at locations that placed objects own and Placements select by
	// associated.
	// +optional
	// +kubebuilder:default=Downsynced
	From SummarySource `json:"from,omitempty"`
	// ForEach is an expression that returns a list of up to 256 elements, such as object.results. All
	// other expressions are then evaluated once for each element, which is their variable item. An
	// object counts with each of these elements instead of once; null has none. If an expression
	// fails for an element, all of the object is missing in the rows.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	ForEach string `json:"forEach,omitempty"`
	// Filter is an expression. Objects or elements for which it is false are excluded.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Filter string `json:"filter,omitempty"`
	// GroupBy are the expressions whose values define the groups. If it is absent, there is one
	// group.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	GroupBy []SummaryColumnExpression `json:"groupBy,omitempty"`
	// Combine are the columns that combine values of a group.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Combine []SummaryCombine `json:"combine,omitempty"`
	// Select are the columns of a table with one row for each object at each location.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Select []SummaryColumnExpression `json:"select,omitempty"`
	// Limit is the maximum number of rows. Rows are sorted by the values of groupBy, or by object
	// and location for select.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Limit int32 `json:"limit,omitempty"`
}

// SummarySource is the source of the objects of a Summary.
//
// +kubebuilder:validation:Enum=Downsynced;Upsynced;Associated
type SummarySource string

const (
	// SummaryDownsynced selects placed objects; the default.
	SummaryDownsynced SummarySource = "Downsynced"
	// SummaryUpsynced selects objects that were created at locations.
	SummaryUpsynced SummarySource = "Upsynced"
	// SummaryAssociated selects objects at locations that placed objects own.
	SummaryAssociated SummarySource = "Associated"
)

// SummaryColumnExpression is a column whose values an expression computes.
type SummaryColumnExpression struct {
	// Name is the name of the column.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z][a-zA-Z0-9_.-]*$`
	Name string `json:"name"`
	// Expression computes the value.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression"`
}

// SummaryCombine is a column that combines the values of a group.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'COUNT' || has(self.expression)",message="only COUNT needs no expression"
type SummaryCombine struct {
	// Name is the name of the column.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z][a-zA-Z0-9_.-]*$`
	Name string `json:"name"`
	// Type is the function that combines the values. Null values are ignored. Without any value,
	// COUNT and SUM are 0, and all others are null.
	Type SummaryCombineType `json:"type"`
	// Expression computes the values: numbers, quantities or durations; for MIN and MAX also times
	// and strings; for COUNT any values. COUNT without an expression counts all objects, or all
	// elements of forEach.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression,omitempty"`
}

// SummaryCombineType is the function that combines values.
//
// +kubebuilder:validation:Enum=COUNT;SUM;AVG;MIN;MAX
type SummaryCombineType string

// Functions that combine values.
const (
	SummaryCount   SummaryCombineType = "COUNT"
	SummarySum     SummaryCombineType = "SUM"
	SummaryAverage SummaryCombineType = "AVG"
	SummaryMin     SummaryCombineType = "MIN"
	SummaryMax     SummaryCombineType = "MAX"
)

// SummaryStatus is the observed table.
type SummaryStatus struct {
	// ObservedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Columns describe the values of a row, in order.
	// +optional
	// +listType=atomic
	Columns []SummaryColumn `json:"columns,omitempty"`
	// Rows have one value for each column.
	// +optional
	// +listType=atomic
	Rows []SummaryRow `json:"rows,omitempty"`
	// Total is the number of rows, including those beyond the limit.
	// +optional
	Total int64 `json:"total,omitempty"`
	// Truncated reports whether there are more rows than the limit.
	// +optional
	Truncated bool `json:"truncated,omitempty"`
	// Counted is the number of objects in the rows; an object counts once for each location.
	// +optional
	Counted int64 `json:"counted"`
	// Stale is the number of these whose reports are stale. Their values are from the
	// last report.
	// +optional
	Stale int64 `json:"stale"`
	// Failed is the number of objects that are missing in the rows because an expression fails for
	// them.
	// +optional
	Failed int64 `json:"failed"`
	// Errors are the first error of each of up to 10 locations.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Errors []SummaryError `json:"errors,omitempty"`
	// AsOf is set while changes have waited for more than ten seconds. All changes before this time are
	// in the rows. When absent, the rows are up to date.
	// +optional
	AsOf *metav1.Time `json:"asOf,omitempty"`
	// Conditions are Accepted, Complete and Ready. Accepted: all tests and expressions are valid.
	// Complete: the rows are complete, apart from those beyond the limit. Complete is False with the
	// reason Counting while changes, or objects that are counted for the first time, wait. Ready: both
	// are True, no object is missing in the rows, and no report is stale.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SummaryRow has a JSON value for each column; null for no value. Quantities, durations and times
// are strings.
type SummaryRow []apiextensionsv1.JSON

// SummaryColumn describes a column.
type SummaryColumn struct {
	// Name is the name of the column, as in the spec.
	Name string `json:"name"`
	// Type is the type of all values that are not null: integer, number, quantity, duration, time,
	// string, boolean, or any.
	Type SummaryColumnType `json:"type"`
}

// SummaryColumnType is the type of the values of a column.
//
// +kubebuilder:validation:Enum=integer;number;quantity;duration;time;string;boolean;any
type SummaryColumnType string

// SummaryError is the reason why objects of a location are missing in the rows.
type SummaryError struct {
	// Location is the name of the location.
	Location string `json:"location"`
	// Message is a text for users.
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
