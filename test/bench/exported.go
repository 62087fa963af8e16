package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// exportedHub is a hub of its own on which a provider's space exports a kind, of which other
// spaces have objects. They have two labels: by one of them all are in one slice of a view,
// by the other in as many as there may be.
type exportedHub struct {
	ownHub
	// whole leads to the hub's root path, writers are more of the same.
	whole   *client
	writers []*client
	// watches are those of slices; all their events go to one place.
	watches *gathered
	// edited counts the edits.
	edited int
	// cpu is what the hub took for an edit, in µs, with one slice.
	cpu float64
}

// sliceExports measures the cost of slices: memory for their content and for watches of them, and edits, each of
// which one watch receives. It does so with all objects in one slice, and with many slices.
func (b *bench) sliceExports() error {
	own, err := b.newOwnHub(stateSpace(0))
	if err != nil {
		return err
	}
	defer own.end()
	h := &exportedHub{ownHub: own}
	if h.whole, err = newClient(h.bench.hub.PathConfig("")); err != nil {
		return err
	}
	const writers = 16
	h.writers = make([]*client, writers)
	for i := range h.writers {
		if h.writers[i], err = newClient(h.bench.hub.PathConfig("")); err != nil {
			return err
		}
	}
	return h.take("exports", phase{"bindings", h.addBindings}, phase{"objects", h.addObjects}, phase{"one slice", h.editInOne}, phase{"slices", h.editInMany})
}

const (
	exportedGroup = "bench.example"
	exportedName  = "widgets"
	exportedPath  = "apis/" + exportedGroup + "/v1/" + exportedName
	// oneLabel and manyLabel are what the views split by.
	oneLabel, manyLabel = "one", "many"
	oneValue            = "all"
)

// sliceValue is the value of the objects of a slice, of many.
func sliceValue(i int) string { return fmt.Sprintf("slice-%05d", i) }

// consumer is the space of one of the consumers; the first space is the provider's.
func consumer(i int) string { return stateSpace(i + 1) }

// sliceOf is the slice of an object: consecutive ones are in different ones.
func (h *exportedHub) sliceOf(i int) int { return i % h.bench.size.slices }

// exportedIn is the collection of the object in the space that has it.
func (h *exportedHub) exportedIn(i int) string {
	return "/spaces/" + consumer(i/h.bench.size.slices%h.bench.size.consumers) + "/apis/" + exportedGroup + "/v1/namespaces/default/" + exportedName
}

// addBindings makes the spaces, what is exported, and bindings to that.
func (h *exportedHub) addBindings() error {
	b := h.bench
	if err := b.makeSpaces(b.size.consumers + 1); err != nil {
		return err
	}
	crds := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	if err := b.space.create(b.ctx, crds, encoded(exportedCRD())); err != nil {
		return err
	}
	if err := h.ready(b.space, crds+"/"+exportedName+"."+exportedGroup, "Established"); err != nil {
		return err
	}
	if err := b.space.create(b.ctx, orreryAPI+"/apiexports", orreryObject("APIExport", exportedName, map[string]any{
		"resources": []any{map[string]any{"group": exportedGroup, "resource": exportedName}},
	})); err != nil {
		return err
	}
	if err := share(b.ctx, h.writers, b.size.consumers, func(ctx context.Context, c *client, i int) error {
		path := "/spaces/" + consumer(i) + orreryAPI + "/apibindings"
		if err := c.create(ctx, path, orreryObject("APIBinding", exportedName, map[string]any{
			"export": map[string]any{"space": stateSpace(0), "name": exportedName},
		})); err != nil {
			return err
		}
		return h.ready(c, path+"/"+exportedName, "Ready")
	}); err != nil {
		return err
	}
	return b.calmDown()
}

// ready waits until a condition of an object is True.
func (h *exportedHub) ready(c *client, path, condition string) error {
	return eventually(h.bench.ctx, path, func() error {
		text, err := c.get(h.bench.ctx, path)
		if err == nil && gjson.GetBytes(text, `status.conditions.#(type=="`+condition+`").status`).String() != "True" {
			err = fmt.Errorf("it is not %s: %s", condition, gjson.GetBytes(text, "status"))
		}
		return err
	})
}

// addObjects makes the objects, and reads what they cost while there is no view.
func (h *exportedHub) addObjects() error {
	b := h.bench
	each, err := h.grownBy(b.size.sliced, func() error {
		return share(b.ctx, h.writers, b.size.sliced, func(ctx context.Context, c *client, i int) error {
			return c.create(ctx, h.exportedIn(i), h.exported(i))
		})
	})
	b.report.set("exports.object.memory", each, "%d objects in %d spaces, hub %s", b.size.sliced, b.size.consumers, megabytes(h.last))
	return err
}

// exported is one of the objects.
func (h *exportedHub) exported(i int) []byte {
	return encoded(map[string]any{
		"apiVersion": exportedGroup + "/v1", "kind": "Widget",
		"metadata": map[string]any{
			"name": nameOf(i), "namespace": "default",
			"labels": map[string]string{oneLabel: oneValue, manyLabel: sliceValue(h.sliceOf(i))},
		},
		"data": map[string]string{"value": "wanted", "payload": strings.Repeat("0123456789abcdef", 1<<10/16)},
	})
}

// editInOne edits objects that all are in one slice.
func (h *exportedHub) editInOne() error {
	if err := h.slice(oneLabel, []string{oneValue}); err != nil {
		return err
	}
	cpu, _, err := h.editSliced()
	if err != nil {
		return err
	}
	h.cpu = cpu
	if err := h.watches.close(); err != nil {
		return err
	}
	return h.whole.do(h.bench.ctx, "DELETE", h.viewPath(oneLabel), "", nil)
}

// editInMany reads what many slices cost, and edits objects that are in them.
func (h *exportedHub) editInMany() error {
	b, n := h.bench, h.bench.size.slices
	var values []string
	for i := range n {
		values = append(values, sliceValue(i))
	}
	// The memory of the previous slice must be free first.
	if err := b.calmDown(); err != nil {
		return err
	}
	if err := h.slice(manyLabel, values); err != nil {
		return err
	}
	cpu, took, err := h.editSliced()
	if err != nil {
		return err
	}
	b.report.set("exports.edit.cpu", cpu/h.cpu, "hub's CPU %.0f µs for each edit with %d slices, each watched, %.0f µs with one", cpu, n, h.cpu)
	b.report.set("exports.edit.p50", quantile(took, 0.5), "%d edits, %d a second", len(took), b.size.rates[0])
	b.report.set("exports.edit.p99", quantile(took, 0.99), "longest %.1f ms", quantile(took, 1))
	return h.watches.close()
}

// slice makes a view, waits until it has its slices, and watches each of them. It reads what
// that costs.
func (h *exportedHub) slice(label string, values []string) error {
	b := h.bench
	objects, err := h.grownBy(b.size.sliced, func() error {
		path := strings.TrimSuffix(h.viewPath(label), "/"+label)
		if err := h.whole.create(b.ctx, path, orreryObject("APIExportView", label, map[string]any{
			"export": exportedName, "split": map[string]any{"label": label},
		})); err != nil {
			return err
		}
		return h.sliced(label, len(values))
	})
	if err != nil {
		return err
	}
	watches, err := h.grownBy(len(values), func() (err error) {
		h.watches, err = h.watchSlices(label, values)
		return err
	})
	if err != nil {
		return errors.Join(err, h.watches.close())
	}
	if label == manyLabel {
		b.report.set("exports.sliced.memory", objects, "%d slices, hub %s", len(values), megabytes(h.last))
		b.report.set("exports.watch.memory", watches, "%d watches over %d connections", len(values), h.watches.connections())
	}
	return nil
}

func (h *exportedHub) viewPath(name string) string {
	return "/spaces/" + stateSpace(0) + orreryAPI + "/apiexportviews/" + name
}

// sliced waits until the status of a view has a number of slices.
func (h *exportedHub) sliced(name string, n int) error {
	return eventually(h.bench.ctx, "the slices", func() error {
		text, err := h.whole.get(h.bench.ctx, h.viewPath(name))
		if current := gjson.GetBytes(text, "status.slices").Int(); err == nil && current != int64(n) {
			err = fmt.Errorf("there are %d of %d", current, n)
		}
		return err
	})
}

func orreryObject(kind, name string, spec map[string]any) []byte {
	return encoded(map[string]any{"apiVersion": "orrery.dev/v1alpha1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec})
}

// exportedCRD defines what is exported.
func exportedCRD() map[string]any {
	text := map[string]any{"type": "string"}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": exportedName + "." + exportedGroup},
		"spec": map[string]any{
			"group": exportedGroup, "scope": "Namespaced",
			"names": map[string]any{"plural": exportedName, "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"data": map[string]any{"type": "object", "additionalProperties": text}},
				}},
			}},
		},
	}
}
