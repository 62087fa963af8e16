package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// exportPace is the minimum interval between writes of an APIExport or APIExportView.
const exportPace = time.Second

// exportConfig contains the dependencies of the exportController.
type exportConfig struct {
	Table  *table.Table
	Status *statusWriter
	// Consumers returns the spaces that have bound an APIExport.
	Consumers func(provider key.Space, export string) []key.Space
	// Unclaimable returns the reason why an export cannot claim a resource, or "".
	Unclaimable func(key.Resource) string
	// URL returns the URL of an export view, without the path of a space.
	URL func(key.ExportView) string
	Now func() time.Time
}

// exportController writes the status of APIExports: whether all resources are defined, and how many
// spaces have bound them.
type exportController struct {
	config exportConfig
	pauses *pauses
}

func newExportController(config exportConfig) *exportController {
	return &exportController{config, newPauses(config.Now)}
}

func (c *exportController) watches() []watch {
	return []watch{follow(c.config.Table, source{resourceTopics(key.APIExports, key.APIBindings, key.CRDs), inAllSpaces(key.APIExports), c.concerned})}
}

func (c *exportController) reconcile(ctx context.Context, k string) error {
	return c.pauses.run(k, func() (time.Duration, error) { return c.update(ctx, k) })
}

// concerned enqueues the APIExports that a change of one, of an APIBinding or of a CRD may
// affect.
func (c *exportController) concerned(ch table.Change) []string {
	switch s, r, _, _ := key.Split(ch.Row().Key); r {
	case key.APIBindings:
		return byExport(ch)
	case key.CRDs:
		return besides(c.config.Table, s, key.APIExports)
	}
	return byKey(ch)
}

// byExport enqueues the export of a changed APIBinding.
func byExport(ch table.Change) (keys []string) {
	for _, row := range []*table.Row{ch.Prev, ch.Cur} {
		if b := binding.Read(row); b != nil && !slices.Contains(keys, b.ExportKey()) {
			keys = append(keys, b.ExportKey())
		}
	}
	return keys
}

// acting returns the object of a key; row is nil if the object is not in effect.
func acting(t *table.Table, state table.Reader, k string) (o key.Object, row *table.Row, err error) {
	if o, err = key.ParseObject(k); err != nil {
		return o, nil, err
	}
	if row = state.Get(k); !acts(row) || !write.Exists(t, o.Space) {
		return o, nil, nil
	}
	return o, row, nil
}

// update writes the status of an APIExport, and returns the time until the next update.
func (c *exportController) update(ctx context.Context, k string) (time.Duration, error) {
	snapshot := c.config.Table.Snapshot()
	o, row, err := acting(c.config.Table, snapshot, k)
	if row == nil {
		return 0, err
	}
	bindings := len(c.config.Consumers(o.Space, o.Name))
	return exportPace, c.config.Status.update(ctx, row, func(object []byte) (any, error) {
		var e v1alpha1.APIExport
		if err := json.Unmarshal(object, &e); err != nil {
			return nil, fmt.Errorf("decode export %q: %w", o.Name, err)
		}
		st := e.Status
		st.Bindings = int32(bindings) // #nosec G115 -- there are fewer spaces
		st.URL = c.config.URL(key.ExportView{Space: o.Space, Name: o.Name}) + acrossSpaces
		c.config.Status.condition(&st.Conditions, row, c.offers(snapshot, o.Space, &e.Spec))
		return st, nil
	})
}

// acrossSpaces is the path of an export view that serves the objects of all spaces.
const acrossSpaces = "/spaces/" + string(key.AllSpaces)

// acts reports whether an object exists, is not being deleted, and is meant for this hub.
func acts(row *table.Row) bool {
	return row != nil && !row.Meta.Deleting && !v1alpha1.IsForBelow(row.Meta.Labels)
}

// offers returns the condition Ready of an APIExport.
func (c *exportController) offers(state table.Reader, s key.Space, spec *v1alpha1.APIExportSpec) metav1.Condition {
	var undefined []string
	for _, r := range spec.Resources {
		if !binding.Defines(state.Get(binding.DefinitionKey(s, r))) {
			undefined = append(undefined, r.Resource+"."+r.Group)
		}
	}
	if len(undefined) > 0 {
		return notReady(v1alpha1.ReasonNoDefinition, "no established CustomResourceDefinition of the space defines "+strings.Join(undefined, ", "))
	}
	for _, claim := range spec.Claims { // a former version of the hub may have let others in
		if why := c.config.Unclaimable(key.NewResource(claim.Group, claim.Resource)); why != "" {
			return notReady(v1alpha1.ReasonUnclaimable, fmt.Sprintf("claim of %s: %s", claim.Resource, why))
		}
	}
	return ready("the exported APIs can be bound")
}
