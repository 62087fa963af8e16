package cli

import (
	"bytes"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
)

// printTable prints a table. It writes once, since the printer drops the errors of writes.
func printTable(w io.Writer, t *metav1.Table, options printers.PrintOptions) error {
	var text bytes.Buffer
	if err := printers.NewTablePrinter(options).PrintObj(t, &text); err != nil {
		return err
	}
	_, err := w.Write(text.Bytes())
	return err
}
