package registry

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"orrery.dev/orrery/apis/v1alpha1"
)

// none is a value that is not there, as tables show it.
const none = "<none>"

// ofSummary is the table that a Summary is: its own columns and rows. ok is false if it has
// none yet.
func ofSummary(object runtime.Object) (made *metav1.Table, ok bool) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, false
	}
	var s v1alpha1.Summary
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s) != nil || len(s.Status.Columns) == 0 {
		return nil, false
	}
	made = &metav1.Table{}
	for _, c := range s.Status.Columns {
		made.ColumnDefinitions = append(made.ColumnDefinitions, metav1.TableColumnDefinition{Name: c.Name, Type: cellType(c.Type), Description: "Values of type " + string(c.Type) + "."})
	}
	for _, row := range s.Status.Rows {
		cells := make([]any, len(s.Status.Columns))
		for i := range cells {
			cells[i] = none
			if i < len(row) {
				cells[i] = cell(row[i].Raw)
			}
		}
		made.Rows = append(made.Rows, metav1.TableRow{Cells: cells})
	}
	return made, true
}

// cellType is the type of a column as tables have it.
func cellType(t v1alpha1.SummaryColumnType) string {
	switch t {
	case "integer", "number", "boolean":
		return string(t)
	}
	return "string"
}

// cell is a value as tables show it: lists and objects as JSON.
func cell(raw []byte) any {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return none
	}
	switch v.(type) { // numbers as they are decoded by clients
	case nil:
		return none
	case int64, float64, string, bool:
		return v
	}
	return string(raw)
}
