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
	// maxEndpoints is how many slices a status lists.
	maxEndpoints = 1024
	// endpointsPerPace is how many slices a status may list that is written every exportPace.
	// A larger one, of up to hundreds of kilobytes, is written less often.
	endpointsPerPace = 100
	// maxUnsliced is how many versions a message names that can't be sliced.
	maxUnsliced = 5
)

// sliced writes the status of APIExportViews: which slices there are, where, and how much is
// in each.
func (c *Controllers) sliced() *controller {
	views := inAllSpaces(key.APIExportViews)
	return c.controller("apiexportviews", c.paced(c.reconcileExportView), c.config.Shelved.watch,
		c.follow(source{table.ResourceTopic(key.APIExportViews), views, byKey}),
		c.follow(source{table.ResourceTopic(key.APIExports), views, c.ofExport}),
		c.follow(source{table.ResourceTopic(key.CRDs), views, c.besidesCRD(key.APIExportViews)}))
}

// ofExport names a change of an APIExport by the views of its space that slice it.
func (c *Controllers) ofExport(ch table.Change) (keys []string) {
	o, err := key.ParseObject(ch.Row().Key)
	if err != nil || o.Resource != key.APIExports {
		return byKey(ch) // a view that is there at the start
	}
	if ch.Prev != nil && ch.Cur != nil && ch.Prev.Meta.Generation == ch.Cur.Meta.Generation && acts(ch.Prev) == acts(ch.Cur) {
		return nil // it is the same but for its status
	}
	c.config.Table.Snapshot().Ascend(key.ResourcePrefix(o.Space, key.APIExportViews), func(row *table.Row) bool {
		if gjson.GetBytes(row.Value, "spec.export").String() == o.Name {
			keys = append(keys, row.Key)
		}
		return true
	})
	return keys
}

func (c *Controllers) reconcileExportView(ctx context.Context, k string) (time.Duration, error) {
	snapshot := c.config.Table.Snapshot()
	o, row, err := c.acting(snapshot, k)
	if row == nil {
		return 0, err
	}
	rest := exportPace
	err = c.updateStatus(ctx, row, func(object []byte) (any, error) {
		var v v1alpha1.APIExportView
		if err := json.Unmarshal(object, &v); err != nil {
			return nil, fmt.Errorf("decode view %q: %w", o.Name, err)
		}
		served, is := sliceable(snapshot, o.Space, &v.Spec)
		st := &v.Status
		c.condition(&st.Conditions, row, is)
		st.Slices, st.Endpoints, st.Rest = 0, nil, nil
		if served {
			c.slices(o, &v)
		}
		rest = max(rest, exportPace*time.Duration(len(st.Endpoints))/endpointsPerPace)
		return v.Status, nil
	})
	return rest, err
}

// slices sets the slices that a view has, by their values.
func (c *Controllers) slices(o key.Object, v *v1alpha1.APIExportView) {
	st, of := &v.Status, key.Shelf{Space: o.Space, Name: o.Name, View: true}
	counted, _ := c.config.Table.Slices(o.Space, o.Name)
	st.Rest = &v1alpha1.RestEndpoint{URL: c.config.ShelfURL(of)}
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
		of.Value = e.Value
		e.URL, e.Objects = c.config.ShelfURL(of), objects[e.Value]
	}
}

// sliceable says whether there is what a view slices, and its condition Ready.
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
			"%s has a default in the schema of %s: what was stored before, without a value, is in the rest, but reads as if it had that value", spec.Split.Field, someOf(defaulting)))
	}
	return true, ready("the slices are served")
}

// someOf names the first of what a view can't slice.
func someOf(all []string) string {
	if len(all) > maxUnsliced {
		return strings.Join(all[:maxUnsliced], ", ") + " and others"
	}
	return strings.Join(all, ", ")
}

// unfit are the versions that a CRD serves whose schema does not have a field as a string, and
// those that give it a default: by that, objects have a value in one place and none in another.
func unfit(crd []byte, path string) (lack, defaulted []string) {
	// The names have nothing that means anything else there.
	names := strings.Split(path[1:], ".")
	gjson.GetBytes(crd, "spec.versions").ForEach(func(_, v gjson.Result) bool {
		if !v.Get("served").Bool() {
			return true
		}
		at, given := v.Get("schema.openAPIV3Schema"), false
		for i, name := range names {
			given = given || at.Get("default."+strings.Join(names[i:], ".")).Exists()
			at = at.Get("properties." + name)
		}
		if at.Get("type").String() != "string" {
			lack = append(lack, v.Get("name").String())
		} else if given || at.Get("default").Exists() {
			defaulted = append(defaulted, v.Get("name").String())
		}
		return true
	})
	return lack, defaulted
}
