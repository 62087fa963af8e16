package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// maxEndpoints bounds the slices in a status.
	maxEndpoints = 1024
	// endpointsPerPace is the number of slices up to which a status is written every exportPace. A
	// larger status, of up to hundreds of kilobytes, is written less often.
	endpointsPerPace = 100
	// maxUnsliced bounds the versions that a message names.
	maxUnsliced = 5
)

// exportViewConfig contains the dependencies of the exportViewController.
type exportViewConfig struct {
	Table  *table.Table
	Status *statusWriter
	// Changed collects the APIExportViews whose slices may have changed.
	Changed *ChangedExportViews
	// URL returns the URL of an export view, without the path of a space.
	URL func(key.ExportView) string
	Now func() time.Time
}

// exportViewController writes the status of APIExportViews: their slices, with URLs and numbers of
// objects.
type exportViewController struct {
	config exportViewConfig
	pauses *pauses
}

func newExportViewController(config exportViewConfig) *exportViewController {
	return &exportViewController{config, newPauses(config.Now)}
}

func (c *exportViewController) watches() []watch {
	topics := resourceTopics(key.APIExportViews, key.APIExports, key.CRDs)
	return []watch{c.config.Changed.watch(), follow(c.config.Table, source{topics, inAllSpaces(key.APIExportViews), c.concerned})}
}

func (c *exportViewController) reconcile(ctx context.Context, k string) error {
	return c.pauses.run(k, func() (time.Duration, error) { return c.update(ctx, k) })
}

// concerned enqueues the APIExportViews that a change of one, of an APIExport or of a CRD may
// affect.
func (c *exportViewController) concerned(ch table.Change) []string {
	switch s, r, _, _ := key.Split(ch.Row().Key); r {
	case key.APIExports:
		return c.ofExport(ch)
	case key.CRDs:
		return besides(c.config.Table, s, key.APIExportViews)
	}
	return byKey(ch)
}

// ofExport enqueues the views of a changed APIExport.
func (c *exportViewController) ofExport(ch table.Change) (keys []string) {
	o, err := key.ParseObject(ch.Row().Key)
	if err != nil {
		return nil
	}
	if ch.Prev != nil && ch.Cur != nil && ch.Prev.Meta.Generation == ch.Cur.Meta.Generation && acts(ch.Prev) == acts(ch.Cur) {
		return nil // only its status has changed
	}
	c.config.Table.Snapshot().Ascend(key.ResourcePrefix(o.Space, key.APIExportViews), func(row *table.Row) bool {
		if gjson.GetBytes(row.Value, "spec.export").String() == o.Name {
			keys = append(keys, row.Key)
		}
		return true
	})
	return keys
}

// update writes the status of an APIExportView, and returns the time until the next update.
func (c *exportViewController) update(ctx context.Context, k string) (time.Duration, error) {
	snapshot := c.config.Table.Snapshot()
	o, row, err := acting(c.config.Table, snapshot, k)
	if row == nil {
		return 0, err
	}
	rest := exportPace
	err = c.config.Status.update(ctx, row, func(object []byte) (any, error) {
		var v v1alpha1.APIExportView
		if err := json.Unmarshal(object, &v); err != nil {
			return nil, fmt.Errorf("decode view %q: %w", o.Name, err)
		}
		served, is := sliceable(snapshot, o.Space, &v.Spec)
		st := &v.Status
		c.config.Status.condition(&st.Conditions, row, is)
		st.Slices, st.Endpoints, st.Rest = 0, nil, nil
		if served {
			c.slices(o, &v)
		}
		rest = max(rest, exportPace*time.Duration(len(st.Endpoints))/endpointsPerPace)
		return v.Status, nil
	})
	return rest, err
}

// slices sets the slices of a view, ordered by value.
func (c *exportViewController) slices(o key.Object, v *v1alpha1.APIExportView) {
	st, exportView := &v.Status, key.ExportView{Space: o.Space, Name: o.Name, View: true}
	counted, _ := c.config.Table.Slices(o.Space, o.Name)
	st.Rest = &v1alpha1.RestEndpoint{URL: c.config.URL(exportView)}
	objects := map[string]int64{}
	for _, f := range counted {
		objects[f.Value] = int64(f.Rows)
		if f.Value == "" {
			st.Rest.Objects = int64(f.Rows)
		} else if len(v.Spec.Values) == 0 {
			st.Endpoints = append(st.Endpoints, v1alpha1.SliceEndpoint{Value: f.Value})
		}
	}
	for _, value := range slices.Sorted(slices.Values(v.Spec.Values)) {
		st.Endpoints = append(st.Endpoints, v1alpha1.SliceEndpoint{Value: value})
	}
	st.Slices = int32(len(st.Endpoints)) // #nosec G115 -- there are fewer objects
	st.Endpoints = st.Endpoints[:min(len(st.Endpoints), maxEndpoints)]
	for i := range st.Endpoints {
		e := &st.Endpoints[i]
		exportView.Value = e.Value
		e.URL, e.Objects = c.config.URL(exportView), objects[e.Value]
	}
}

// sliceable reports whether the export of a view exists, and returns the condition Ready.
func sliceable(state table.Reader, s key.Space, spec *v1alpha1.APIExportViewSpec) (bool, metav1.Condition) {
	row := state.Get(key.Object{Space: s, Identity: key.Identity{Resource: key.APIExports, Name: spec.Export}}.Key())
	var export v1alpha1.APIExport
	if !acts(row) || json.Unmarshal(row.Value, &export) != nil {
		return false, notReady(v1alpha1.ReasonNoSuchExport, fmt.Sprintf("the space has no APIExport %q", spec.Export))
	}
	var lacking, defaulting []string
	for _, r := range export.Spec.Resources {
		crd := state.Get(binding.DefinitionKey(s, r))
		if spec.Split.Field == "" || crd == nil {
			continue
		}
		lacks, defaults := unfit(crd.Value, spec.Split.Field)
		for _, version := range lacks {
			lacking = append(lacking, r.Resource+"."+r.Group+"/"+version)
		}
		for _, version := range defaults {
			defaulting = append(defaulting, r.Resource+"."+r.Group+"/"+version)
		}
	}
	switch {
	case len(lacking) > 0:
		return true, notReady(v1alpha1.ReasonNoSuchField, fmt.Sprintf("%s is not a string in the schema of %s", spec.Split.Field, someOf(lacking)))
	case len(defaulting) > 0:
		return true, notReady(v1alpha1.ReasonFieldDefaulted, fmt.Sprintf(
			"%s has a default in the schema of %s: objects that were stored without a value are in the rest, but clients read that value in them", spec.Split.Field, someOf(defaulting)))
	}
	return true, ready("the slices are served")
}

// someOf joins the first of the versions that a view cannot slice.
func someOf(all []string) string {
	if len(all) > maxUnsliced {
		return strings.Join(all[:maxUnsliced], ", ") + " and others"
	}
	return strings.Join(all, ", ")
}

// unfit returns the served versions of a CRD whose schema does not define a field as a string, and
// those that give it a default. With a default, an object has a value when it is read but none in
// the log.
func unfit(crd []byte, path string) (lack, defaulted []string) {
	// The names contain no characters that are special in gjson paths.
	names := strings.Split(path[1:], ".")
	gjson.GetBytes(crd, "spec.versions").ForEach(func(_, v gjson.Result) bool {
		if !v.Get("served").Bool() {
			return true
		}
		field, given := v.Get("schema.openAPIV3Schema"), false
		for i, name := range names {
			given = given || field.Get("default."+strings.Join(names[i:], ".")).Exists()
			field = field.Get("properties." + name)
		}
		if field.Get("type").String() != "string" {
			lack = append(lack, v.Get("name").String())
		} else if given || field.Get("default").Exists() {
			defaulted = append(defaulted, v.Get("name").String())
		}
		return true
	})
	return lack, defaulted
}
