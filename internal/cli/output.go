package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// Output formats.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// output is the format in which a command prints its result.
type output struct {
	format  string
	allowed []string
}

// addFlag adds the flag --output; the first format is the default.
func (o *output) addFlag(cmd *cobra.Command, formats ...string) {
	o.allowed = formats
	cmd.Flags().StringVarP(&o.format, "output", "o", formats[0], "output format: "+strings.Join(formats, ", "))
	complete := cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(err) // the flag was added above
	}
}

// check returns a usage error if the format is not allowed.
func (o *output) check(cmd *cobra.Command) error {
	if !slices.Contains(o.allowed, o.format) {
		return badUsage(cmd, "output format %q: want one of %s", o.format, strings.Join(o.allowed, ", "))
	}
	return nil
}

// structured reports whether the output is JSON or YAML.
func (o *output) structured() bool { return o.format == formatJSON || o.format == formatYAML }

// data prints v as JSON or YAML.
func (o *output) data(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "    ")
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	if o.format == formatYAML {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return fmt.Errorf("encode the answer: %w", err)
		}
	}
	_, err = fmt.Fprintln(w, strings.TrimSuffix(string(text), "\n"))
	return err
}

// table prints a table as kubectl does. If it has no rows, it prints "no" and the text empty to
// errOut.
func (o *output) table(w, errOut io.Writer, t *metav1.Table, empty string) error {
	if len(t.Rows) == 0 {
		_, err := fmt.Fprintln(errOut, "no "+empty)
		return err
	}
	options := printers.PrintOptions{Wide: o.format == formatWide}
	return printers.NewTablePrinter(options).PrintObj(t, w)
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
