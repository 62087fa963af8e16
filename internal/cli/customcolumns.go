package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"
)

// noValue is shown in a custom column where an entry has no such field, as in kubectl.
const noValue = "<none>"

// customColumn is a column of the format custom-columns=HEADER:JSONPATH,...
//
// kubectl's own printer of this format is part of its commands: it would add five modules to this
// program.
type customColumn struct {
	header string
	path   *jsonpath.JSONPath
}

// parseColumns parses the specification of columns.
func parseColumns(spec string) ([]customColumn, error) {
	var all []customColumn
	for text := range strings.SplitSeq(spec, ",") {
		header, path, ok := strings.Cut(text, ":")
		if !ok || header == "" || path == "" {
			return nil, fmt.Errorf("column %q: want HEADER:PATH, as in NAME:.metadata.name", text)
		}
		path = strings.TrimSuffix(strings.TrimPrefix(path, "{"), "}")
		if !strings.HasPrefix(path, ".") {
			path = "." + path
		}
		column := customColumn{header, jsonpath.New(header).AllowMissingKeys(true)}
		if err := column.path.Parse("{" + path + "}"); err != nil {
			return nil, fmt.Errorf("column %q: %w", text, err)
		}
		all = append(all, column)
	}
	return all, nil
}

// printColumns prints the columns of each entry.
func printColumns(w io.Writer, all []customColumn, entries []any) error {
	t := &metav1.Table{}
	for _, column := range all {
		t.ColumnDefinitions = append(t.ColumnDefinitions, metav1.TableColumnDefinition{Name: column.header, Type: "string"})
	}
	for _, entry := range entries {
		var cells []any
		for _, column := range all {
			cell, err := column.cell(entry)
			if err != nil {
				return err
			}
			cells = append(cells, cell)
		}
		t.Rows = append(t.Rows, metav1.TableRow{Cells: cells})
	}
	return printTable(w, t, printers.PrintOptions{})
}

// cell returns the values of the column in an entry, separated by commas.
func (c customColumn) cell(entry any) (string, error) {
	results, err := c.path.FindResults(entry)
	if err != nil {
		return "", fmt.Errorf("column %s: %w", c.header, err)
	}
	var values []string
	for _, result := range results {
		for _, value := range result {
			var text bytes.Buffer
			if value.IsValid() && value.CanInterface() && value.Interface() != nil {
				err = errors.Join(err, c.path.PrintResults(&text, append(result[:0:0], value)))
			}
			values = append(values, oneLine(text.String()))
		}
	}
	if text := strings.Join(values, ","); text != "" {
		return text, err
	}
	return noValue, err
}
