package exports

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// export is an existing APIExport. It is immutable.
type export struct {
	id exportID
	v1alpha1.APIExport
}

// lists reports whether a resource is exported.
func (x *export) lists(r key.Resource) bool {
	return slices.ContainsFunc(x.Spec.Resources, func(exported v1alpha1.ExportedResource) bool {
		return key.NewResource(exported.Group, exported.Resource) == r
	})
}

// claims reports whether the export claims a verb for a resource.
func (x *export) claims(r key.Resource, verb string) bool {
	return slices.ContainsFunc(x.Spec.Claims, func(c v1alpha1.APIClaim) bool {
		return key.NewResource(c.Group, c.Resource) == r && allows(c.Verbs, verb)
	})
}

func allows(verbs []string, verb string) bool {
	return slices.Contains(verbs, verb) || slices.Contains(verbs, "*")
}

// readExport reads the row of an APIExport; nil if it cannot be bound.
func readExport(id exportID, row *table.Row) *export {
	if all := binding.ReadExport(row); all != nil {
		x := &export{id: id}
		x.Spec = all.Spec
		return x
	}
	return nil
}

// view is an APIExportView. It is immutable.
type view struct {
	export exportID
	// id identifies the view in links.
	id  string
	key Key
}

// readView reads the row of an APIExportView; nil if it is not in effect.
func readView(f key.ExportView, row *table.Row) *view {
	if row == nil || row.Meta.Deleting || v1alpha1.IsForBelow(row.Meta.Labels) {
		return nil
	}
	var spec v1alpha1.APIExportViewSpec
	if json.Unmarshal([]byte(gjson.GetBytes(row.Value, "spec").Raw), &spec) != nil {
		return nil // the API rejects such a view
	}
	v := &view{export: exportID{f.Space, spec.Export}, id: f.String()}
	v.key = Key{View: f, Split: spec.Split, Field: spec.Split.Field != ""}
	if len(spec.Values) > 0 {
		v.key.Values = slices.Sorted(slices.Values(spec.Values))
	}
	return v
}

// bound holds the fields of an APIBinding that affect export views. It is immutable.
type bound struct {
	export exportID
	// in is the binding, reduced to these fields.
	in *binding.Binding
}

// readBound reads the row of an APIBinding; nil if it binds nothing.
func readBound(row *table.Row) *bound {
	b := binding.Read(row)
	if b == nil {
		return nil
	}
	// Other fields are left out, so that their changes have no effect.
	in := &binding.Binding{Space: b.Space}
	in.Spec = b.Spec
	in.Status.SpaceUID, in.Status.Claims = b.Status.SpaceUID, b.Status.Claims
	for _, r := range b.Status.Resources {
		in.Status.Resources = append(in.Status.Resources, v1alpha1.BoundResource{
			ExportedResource: r.ExportedResource, Kind: r.Kind, Namespaced: r.Namespaced,
		})
	}
	return &bound{exportID{b.Provider(), b.Spec.Export.Name}, in}
}

// updatePolicies reads changes of exports, views, bindings and the spaces of providers, and
// recomputes the rules of affected spaces.
func (s *step) updatePolicies(changes []table.Change) {
	exports, spaces := map[exportID]struct{}{}, map[spaceExport]struct{}{}
	for _, c := range changes {
		in, resource, name, ok := key.Split(c.Row().Key)
		if !ok || c.SameEntry() || resource.Group != v1alpha1.Group {
			continue
		}
		switch resource {
		case key.APIExports:
			s.updateExport(exportID{in, name}, c, exports)
		case key.APIExportViews:
			s.updateView(in, name, c, exports)
		case key.APIBindings:
			s.updateBinding(in, name, c, spaces)
		case key.Spaces:
			if in == key.Root && another(c) {
				for export := range s.consumers[key.Space(name)] {
					exports[exportID{key.Space(name), export}] = struct{}{}
				}
			}
		}
	}
	for id := range exports {
		for space := range s.consumers[id.space][id.name] {
			spaces[spaceExport{space, id}] = struct{}{}
		}
	}
	s.touch(spaces)
}

// spaceExport is an export as used by a space.
type spaceExport struct {
	space  key.Space
	export exportID
}

// another reports whether a Space was replaced, or its deletion has begun.
func another(c table.Change) bool {
	return c.Prev == nil || c.Cur == nil || c.Prev.Meta.UID != c.Cur.Meta.UID || c.Prev.Meta.Deleting != c.Cur.Meta.Deleting
}

func (s *step) updateExport(id exportID, c table.Change, exports map[exportID]struct{}) {
	now, old := s.preparedExports.Take(c.Cur, func() *export { return readExport(id, c.Cur) }), s.exports[id]
	switch {
	case now == nil:
		delete(s.exports, id)
	case old != nil && reflect.DeepEqual(old.Spec, now.Spec):
		return
	default:
		s.exports[id] = now
	}
	if now != nil || old != nil {
		exports[id] = struct{}{}
	}
}

func (s *step) updateView(in key.Space, name string, c table.Change, exports map[exportID]struct{}) {
	f := key.ExportView{Space: in, Name: name, View: true}
	now, old := s.preparedViews.Take(c.Cur, func() *view { return readView(f, c.Cur) }), s.views[f]
	if old != nil && now != nil && reflect.DeepEqual(old, now) {
		return
	}
	if old != nil {
		delete(s.views, f)
		if delete(s.viewsOf[old.export], name); len(s.viewsOf[old.export]) == 0 {
			delete(s.viewsOf, old.export)
		}
		exports[old.export] = struct{}{}
	}
	if now != nil {
		s.views[f] = now
		if s.viewsOf[now.export] == nil {
			s.viewsOf[now.export] = map[string]*view{}
		}
		s.viewsOf[now.export][name] = now
		exports[now.export] = struct{}{}
	}
}

func (s *step) updateBinding(in key.Space, name string, c table.Change, spaces map[spaceExport]struct{}) {
	now, old := s.preparedBindings.Take(c.Cur, func() *bound { return readBound(c.Cur) }), s.bindings[in][name]
	if old != nil && now != nil && reflect.DeepEqual(old, now) {
		return
	}
	if old != nil {
		if delete(s.bindings[in], name); len(s.bindings[in]) == 0 {
			delete(s.bindings, in)
		}
		s.unfollow(in, old.export)
		spaces[spaceExport{in, old.export}] = struct{}{}
	}
	if now != nil {
		if s.bindings[in] == nil {
			s.bindings[in] = map[string]*bound{}
		}
		s.bindings[in][name] = now
		s.follow(in, now.export)
		spaces[spaceExport{in, now.export}] = struct{}{}
	}
}

// follow records that a space has a binding to an export.
func (e *Engine) follow(in key.Space, id exportID) {
	if e.consumers[id.space] == nil {
		e.consumers[id.space] = map[string]map[key.Space]struct{}{}
	}
	if e.consumers[id.space][id.name] == nil {
		e.consumers[id.space][id.name] = map[key.Space]struct{}{}
	}
	e.consumers[id.space][id.name][in] = struct{}{}
}

// unfollow removes that record, unless the space has another binding to the export.
func (e *Engine) unfollow(in key.Space, id exportID) {
	for _, b := range e.bindings[in] {
		if b.export == id {
			return // it has another
		}
	}
	delete(e.consumers[id.space][id.name], in)
	if len(e.consumers[id.space][id.name]) == 0 {
		delete(e.consumers[id.space], id.name)
	}
	if len(e.consumers[id.space]) == 0 {
		delete(e.consumers, id.space)
	}
}
