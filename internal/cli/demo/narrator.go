package demo

import (
	"context"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"
)

// Escape sequences of a terminal.
const (
	bold  = "\x1b[1m"
	green = "\x1b[32m"
	cyan  = "\x1b[36m"
	plain = "\x1b[0m"
)

// narrator prints the text of the demo. It ignores errors of the output.
type narrator struct {
	out    io.Writer
	colour bool
	step   int
}

func (n *narrator) in(style, text string) string {
	if !n.colour {
		return text
	}
	return style + text + plain
}

func (n *narrator) printf(format string, args ...any) { _, _ = fmt.Fprintf(n.out, format, args...) }

// title prints the title of a step.
func (n *narrator) title(text string) {
	n.step++
	n.printf("\n%s\n\n", n.in(bold, fmt.Sprintf("%d. %s", n.step, text)))
}

// say prints a paragraph.
func (n *narrator) say(format string, args ...any) { n.printf(format+"\n", args...) }

// command prints a command that has the effect of the step, or shows it.
func (n *narrator) command(format string, args ...any) {
	n.printf("%s\n", n.in(cyan, "$ "+fmt.Sprintf(format, args...)))
}

func (n *narrator) ok(text string) { n.printf("%s\n", n.in(green, "✓ "+text)) }

// show prints resources like `kubectl get`, in a namespace. If namespace is empty, it is that of
// the API's context.
func (n *narrator) show(ctx context.Context, a *api, namespace string, names ...string) error {
	n.command("kubectl --context %s get %s", a.context, strings.Join(names, ","))
	var tables []*metav1.Table
	var kinds []schema.GroupKind
	for _, name := range names {
		kind, err := a.kinds.KindFor(schema.GroupVersionResource{Resource: name})
		if err != nil {
			return fmt.Errorf("find %s in %s: %w", name, a.context, err)
		}
		mapping, err := a.mapping(kind)
		if err != nil {
			return err
		}
		table, err := a.table(ctx, mapping, namespace)
		if err != nil {
			return err
		}
		if len(table.Rows) > 0 {
			tables = append(tables, table)
			kinds = append(kinds, kind.GroupKind())
		}
	}
	if len(tables) == 0 {
		where := ""
		if namespace != "" {
			where = " in " + namespace + " namespace"
		}
		n.printf("No resources found%s.\n\n", where)
		return nil
	}
	for i, table := range tables {
		options := printers.PrintOptions{WithKind: len(names) > 1, Kind: kinds[i]}
		if err := printers.NewTablePrinter(options).PrintObj(table, n.out); err != nil {
			return err
		}
		n.printf("\n")
	}
	return nil
}
