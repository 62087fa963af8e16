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
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// exportPace is the minimum interval between writes of an APIExport or APIExportView.
const exportPace = time.Second

// exported writes the status of APIExports: whether all resources are defined, and how many spaces
// have bound them.
func (c *Controllers) exported() *controller {
	return c.controller("apiexports", c.paced(c.reconcileExport),
		c.follow(source{resourceTopics(key.APIExports, key.APIBindings, key.CRDs), inAllSpaces(key.APIExports), c.concernedExports}))
}

// concernedExports enqueues the APIExports that a change of one, of an APIBinding or of a CRD may
// affect.
func (c *Controllers) concernedExports(ch table.Change) []string {
	switch s, r, _, _ := key.Split(ch.Row().Key); r {
	case key.APIBindings:
		return byExport(ch)
	case key.CRDs:
		return c.besidesCRD(s, key.APIExports)
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

// besidesCRD returns the objects of a resource in the space of a changed CRD.
func (c *Controllers) besidesCRD(s key.Space, r key.Resource) (keys []string) {
	c.config.Table.Snapshot().Ascend(key.ResourcePrefix(s, r), func(row *table.Row) bool {
		keys = append(keys, row.Key)
		return true
	})
	return keys
}

// paced limits the rate of reconciles of a key: the next one runs after the time that the last one
// returned; 0 means that the object no longer exists.
func (c *Controllers) paced(reconcile func(ctx context.Context, k string) (time.Duration, error)) func(context.Context, string) error {
	type last struct {
		reconciled time.Time
		rest       time.Duration
	}
	all := map[string]last{}
	return func(ctx context.Context, k string) error {
		now, previous := c.config.Now(), all[k]
		if left := previous.rest - now.Sub(previous.reconciled); left > 0 && left <= previous.rest {
			return againError(left)
		}
		rest, err := reconcile(ctx, k)
		if all[k] = (last{now, rest}); rest == 0 {
			delete(all, k)
		}
		return err
	}
}

// acting returns the object of a key; row is nil if it is not in effect.
func (c *Controllers) acting(state table.Reader, k string) (o key.Object, row *table.Row, err error) {
	if o, err = key.ParseObject(k); err != nil {
		return o, nil, err
	}
	if row = state.Get(k); !acts(row) || !c.exists(o.Space) {
		return o, nil, nil
	}
	return o, row, nil
}

func (c *Controllers) reconcileExport(ctx context.Context, k string) (time.Duration, error) {
	snapshot := c.config.Table.Snapshot()
	o, row, err := c.acting(snapshot, k)
	if row == nil {
		return 0, err
	}
	bindings := len(c.config.Consumers(o.Space, o.Name))
	return exportPace, c.updateStatus(ctx, row, func(object []byte) (any, error) {
		var e v1alpha1.APIExport
		if err := json.Unmarshal(object, &e); err != nil {
			return nil, fmt.Errorf("decode export %q: %w", o.Name, err)
		}
		st := e.Status
		st.Bindings = int32(bindings) // #nosec G115 -- there are fewer spaces
		st.URL = c.config.ExportViewURL(key.Shelf{Space: o.Space, Name: o.Name}) + acrossSpaces
		c.condition(&st.Conditions, row, c.offers(snapshot, o.Space, &e.Spec))
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
func (c *Controllers) offers(state table.Reader, s key.Space, spec *v1alpha1.APIExportSpec) metav1.Condition {
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
		if why := c.config.Spaces.Unclaimable(key.NewResource(claim.Group, claim.Resource)); why != "" {
			return notReady(v1alpha1.ReasonUnclaimable, fmt.Sprintf("claim of %s: %s", claim.Resource, why))
		}
	}
	return ready("the exported APIs can be bound")
}

func ready(message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonServed, Message: message}
}

func notReady(reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}
