package columns

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
)

const (
	// maxColumns is how many columns a version of a CRD may have.
	maxColumns = 64
	// maxCell is how many bytes a cell has at most. A longer text is cut, and a longer list or
	// object is left out.
	maxCell = 4 << 10
	// maxVisits is how many values are visited at most for the cells of one row.
	maxVisits = 100_000
)

// customTable makes tables by the columns that a CRD defines. What it takes for an object is
// bounded by maxColumns, maxCell and maxVisits, whatever the columns are.
type customTable struct {
	headers []metav1.TableColumnDefinition
	columns []customColumn
}

var _ rest.TableConvertor = &customTable{}

// customColumn is a column of a CRD. It is empty if its path is nil.
type customColumn struct {
	kind string
	path path
}

// Custom is for objects of a kind that a CRD defines, by the columns that it
// defines. A column with a path that ValidateCustom refuses is empty, and columns above
// the limit are left out: the CRD may have been stored before they were refused.
func Custom(defined []apiextensionsv1.CustomResourceColumnDefinition) rest.TableConvertor {
	if len(defined) == 0 {
		defined = ageColumn()
	}
	t := &customTable{headers: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
	}}
	for _, c := range defined[:min(len(defined), maxColumns)] {
		parsed, err := parsePath(c.JSONPath)
		if err != nil {
			parsed = nil
		}
		t.columns = append(t.columns, customColumn{c.Type, parsed})
		description := c.Description
		if description == "" {
			description = "Custom resource definition column (in JSONPath format): " + c.JSONPath
		}
		t.headers = append(t.headers, metav1.TableColumnDefinition{
			Name: c.Name, Type: c.Type, Format: c.Format, Description: description, Priority: c.Priority,
		})
	}
	return t
}

func ageColumn() []apiextensionsv1.CustomResourceColumnDefinition {
	return []apiextensionsv1.CustomResourceColumnDefinition{{
		Name:        "Age",
		Type:        "date",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
		JSONPath:    ".metadata.creationTimestamp",
	}}
}

// ValidateCustom refuses columns whose cells can't be computed in bounded work. Columns of old,
// which is the same version as it was before, are accepted as they are.
func ValidateCustom(path *field.Path, defined, old []apiextensionsv1.CustomResourceColumnDefinition) (errs field.ErrorList) {
	if len(defined) > maxColumns && len(defined) > len(old) {
		return field.ErrorList{field.TooMany(path, len(defined), maxColumns)}
	}
	known := map[string]bool{}
	for _, c := range old {
		known[c.JSONPath] = true
	}
	for i, c := range defined {
		if _, err := parsePath(c.JSONPath); err != nil && !known[c.JSONPath] {
			shown := c.JSONPath
			if len(shown) > maxPath {
				shown = shown[:maxPath]
			}
			errs = append(errs, field.Invalid(path.Index(i).Child("jsonPath"), shown, err.Error()))
		}
	}
	return errs
}

// ConvertToTable implements rest.TableConvertor.
func (t *customTable) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	made := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || o == nil || !o.NoHeaders {
		made.ColumnDefinitions = t.headers
	}
	if m, err := meta.ListAccessor(obj); err == nil {
		made.ResourceVersion, made.Continue, made.RemainingItemCount = m.GetResourceVersion(), m.GetContinue(), m.GetRemainingItemCount()
	} else if m, err := meta.CommonAccessor(obj); err == nil {
		made.ResourceVersion = m.GetResourceVersion()
	}
	var err error
	made.Rows, err = metatable.MetaToTableRow(obj, func(obj runtime.Object, _ metav1.Object, name, _ string) ([]any, error) {
		u, ok := obj.(runtime.Unstructured)
		if !ok {
			return nil, fmt.Errorf("make a row of a %T", obj)
		}
		return t.cells(name, u.UnstructuredContent()), nil
	})
	return made, err
}

// cells are the cells of one object.
func (t *customTable) cells(name string, content map[string]any) []any {
	cells := make([]any, 1, 1+len(t.columns))
	cells[0] = name
	budget := maxVisits
	for _, c := range t.columns {
		cells = append(cells, c.cell(content, &budget))
	}
	return cells
}

// cell is the first result of a column's path in an object; nil if there is none.
func (c customColumn) cell(content map[string]any, budget *int) any {
	if c.path == nil {
		return nil
	}
	value, ok := c.path.first(content, budget)
	if !ok {
		return nil
	}
	switch c.kind {
	case "string":
		return text(value)
	case "integer":
		switch n := value.(type) {
		case int64:
			return n
		case float64:
			return int64(n)
		}
	case "number":
		switch n := value.(type) {
		case int64:
			return float64(n)
		case float64:
			return n
		}
	case "boolean":
		if b, ok := value.(bool); ok {
			return b
		}
	case "date":
		if s, ok := value.(string); ok {
			return since(s)
		}
	}
	return nil
}

// since is how long ago a time was, as the API server's library shows it.
func since(text string) string {
	var t metav1.Time
	if len(text) > maxCell || t.UnmarshalQueryParameter(text) != nil {
		return "<invalid>"
	}
	return metatable.ConvertToHumanReadableDateType(t)
}

// text is a value as text: nil if it is too long and can't be cut.
func text(value any) any {
	switch v := value.(type) {
	case string:
		return cut(v)
	case map[string]any, []any:
		left := maxCell
		if !small(v, &left) {
			return nil
		}
		encoded, err := json.Marshal(v)
		if err != nil || len(encoded) > maxCell {
			return nil
		}
		return string(encoded)
	case nil:
		return "<no value>"
	}
	return fmt.Sprint(value)
}

// cut is a text of at most maxCell bytes.
func cut(s string) string {
	const more = "..."
	if len(s) <= maxCell {
		return s
	}
	end := maxCell - len(more)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.Clone(s[:end]) + more
}

// small reports whether a value takes no more bytes in JSON than are left, apart from escapes. It
// stops where it does.
func small(value any, left *int) bool {
	*left--
	switch v := value.(type) {
	case string:
		*left -= len(v)
	case map[string]any:
		for name, inner := range v {
			*left -= len(name)
			if *left < 0 || !small(inner, left) {
				return false
			}
		}
	case []any:
		for _, inner := range v {
			if !small(inner, left) {
				return false
			}
		}
	}
	return *left >= 0
}
