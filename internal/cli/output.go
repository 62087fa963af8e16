package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// Output formats.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
)

// Output formats with a value, as in jsonpath={.items[0]}.
const (
	formatJSONPath      = "jsonpath"
	formatGoTemplate    = "go-template"
	formatCustomColumns = "custom-columns"
)

// output is the format in which a command prints its result.
type output struct {
	format string
	// allowed are the formats of the command without a value.
	allowed []string
	// entries are the entries of the result, if it is a list.
	entries entries
}

// entries finds the entries of a result for the formats name and custom-columns.
type entries struct {
	// find returns the entries of a result.
	find func(result map[string]any) []any
	// name returns the name of an entry, in the form RESOURCE/NAME.
	name func(entry any) string
}

// addFlag adds the flag --output; the first format is the default. A command that prints JSON also prints
// fields of it, by a JSONPath or a Go template.
func (o *output) addFlag(cmd *cobra.Command, formats ...string) {
	o.allowed = formats
	shown := slices.Clone(formats)
	if o.isAllowed(formatJSON) {
		shown = append(shown, formatJSONPath+"=...", formatGoTemplate+"=...")
	}
	if o.entries.find != nil {
		o.allowed = append(slices.Clone(formats), formatName)
		shown = append(shown, formatName, formatCustomColumns+"=...")
	}
	cmd.Flags().StringVarP(&o.format, "output", "o", formats[0], "output format: "+strings.Join(shown, ", "))
	var completions []string
	for _, format := range shown {
		completions = append(completions, strings.TrimSuffix(format, "..."))
	}
	complete := cobra.FixedCompletions(completions, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(err) // the flag was added above
	}
}

// addListFlag adds the flag --output for a command whose result is a list.
func (o *output) addListFlag(cmd *cobra.Command, list entries) {
	o.entries = list
	o.addFlag(cmd, formatTable, formatWide, formatJSON, formatYAML)
}

func (o *output) isAllowed(format string) bool { return slices.Contains(o.allowed, format) }

// check returns a usage error if the format is not allowed, or its value is invalid.
func (o *output) check(cmd *cobra.Command) error {
	if o.isAllowed(o.format) {
		return nil
	}
	switch name, value, hasValue := strings.Cut(o.format, "="); {
	case o.isAllowed(formatJSON) && slices.Contains([]string{formatJSONPath, formatGoTemplate}, name):
		if _, err := o.template(); err != nil {
			return badUsage(cmd, "output format %q: %v", o.format, err)
		}
		return nil
	case o.entries.find != nil && name == formatCustomColumns && hasValue:
		if _, err := parseColumns(value); err != nil {
			return badUsage(cmd, "output format %q: %v", o.format, err)
		}
		return nil
	}
	all := cmd.Flags().Lookup("output").Usage
	return badUsage(cmd, "output format %q: want one of %s", o.format, strings.TrimPrefix(all, "output format: "))
}

// template returns the printer of a JSONPath or Go template.
func (o *output) template() (printers.ResourcePrinter, error) {
	missing := true
	flags := genericclioptions.KubeTemplatePrintFlags{
		GoTemplatePrintFlags: &genericclioptions.GoTemplatePrintFlags{AllowMissingKeys: &missing},
		JSONPathPrintFlags:   &genericclioptions.JSONPathPrintFlags{AllowMissingKeys: &missing},
	}
	return flags.ToPrinter(o.format)
}

// structured reports whether data prints the result.
func (o *output) structured() bool {
	return o.format == formatName || !o.isAllowed(o.format) || o.complete()
}

// complete reports whether the output is the whole result, as JSON or YAML.
func (o *output) complete() bool { return o.format == formatJSON || o.format == formatYAML }

// data prints v as JSON or YAML, or fields of it.
func (o *output) data(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "    ")
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	if !o.complete() {
		var result map[string]any
		if err := utiljson.Unmarshal(text, &result); err != nil { // it keeps integers
			return fmt.Errorf("encode the answer: %w", err)
		}
		return o.printFields(w, result)
	}
	if o.format == formatYAML {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return fmt.Errorf("encode the answer: %w", err)
		}
	}
	_, err = fmt.Fprintln(w, strings.TrimSuffix(string(text), "\n"))
	return err
}

// printFields prints fields of a result.
func (o *output) printFields(w io.Writer, result map[string]any) error {
	if o.format == formatName {
		for _, entry := range o.entries.find(result) {
			if _, err := fmt.Fprintln(w, o.entries.name(entry)); err != nil {
				return err
			}
		}
		return nil
	}
	if spec, ok := strings.CutPrefix(o.format, formatCustomColumns+"="); ok {
		all, err := parseColumns(spec)
		if err != nil {
			return err
		}
		return printColumns(w, all, o.entries.find(result))
	}
	printer, err := o.template()
	if err != nil {
		return err
	}
	return printer.PrintObj(&unstructured.Unstructured{Object: result}, w)
}

// table prints a table as kubectl does. If it has no rows, it prints "no" and the text empty to
// errOut.
func (o *output) table(w, errOut io.Writer, t *metav1.Table, empty string) error {
	if len(t.Rows) == 0 {
		_, err := fmt.Fprintln(errOut, "no "+empty)
		return err
	}
	return printTable(w, t, printers.PrintOptions{Wide: o.format == formatWide})
}

// columns returns the columns of a table. Those whose name ends in "+" are shown only with -o wide.
func columns(names ...string) []metav1.TableColumnDefinition {
	all := make([]metav1.TableColumnDefinition, 0, len(names))
	for _, name := range names {
		c := metav1.TableColumnDefinition{Name: strings.TrimSuffix(name, "+"), Type: "string"}
		if c.Name != name {
			c.Priority = 1
		}
		all = append(all, c)
	}
	return all
}

// objectEntries returns the functions that list and name the Kubernetes objects of a list. kind is their kind,
// such as "location.orrery.dev".
func objectEntries(kind string) entries {
	return entries{
		find: func(result map[string]any) []any { return listIn(result, "items") },
		name: func(entry any) string {
			object, _ := entry.(map[string]any)
			name, _, _ := unstructured.NestedString(object, "metadata", "name")
			return kind + "/" + name
		},
	}
}

// listIn returns the list in a field of a result; nil if there is none.
func listIn(result map[string]any, field string) []any {
	list, _ := result[field].([]any)
	return list
}
