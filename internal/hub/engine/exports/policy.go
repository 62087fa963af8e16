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

// export is an APIExport that is there. It is immutable.
type export struct {
	id exportID
	v1alpha1.APIExport
}

// lists says whether a resource is exported.
func (x *export) lists(r key.Resource) bool {
	return slices.ContainsFunc(x.Spec.Resources, func(of v1alpha1.ExportedResource) bool {
		return key.NewResource(of.Group, of.Resource) == r
	})
}

// claims says whether the export claims a verb for a resource.
func (x *export) claims(r key.Resource, verb string) bool {
	return slices.ContainsFunc(x.Spec.Claims, func(c v1alpha1.APIClaim) bool {
		return key.NewResource(c.Group, c.Resource) == r && allows(c.Verbs, verb)
	})
}

func allows(verbs []string, verb string) bool {
	return slices.Contains(verbs, verb) || slices.Contains(verbs, "*")
}

// readExport reads the row of an APIExport; nil if it is none that can be bound.
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
	of exportID
	// id is the view's in links.
	id  string
	key Key
}

// readView reads the row of an APIExportView; nil if it slices nothing.
func readView(at key.Shelf, row *table.Row) *view {
	if row == nil || row.Meta.Deleting || v1alpha1.IsForBelow(row.Meta.Labels) {
		return nil
	}
	var spec v1alpha1.APIExportViewSpec
	if json.Unmarshal([]byte(gjson.GetBytes(row.Value, "spec").Raw), &spec) != nil {
		return nil // it can't be written like this
	}
	v := &view{of: exportID{at.Space, spec.Export}, id: at.String()}
	v.key = Key{View: at, Split: spec.Split, Field: spec.Split.Field != ""}
	if len(spec.Values) > 0 {
		v.key.Values = slices.Sorted(slices.Values(spec.Values))
	}
	return v
}

// bound is an APIBinding, as far as it decides on shelves. It is immutable.
type bound struct {
	of exportID
	// in is what of the binding is looked at.
	in *binding.Binding
}

// readBound reads the row of an APIBinding; nil if it binds nothing.
func readBound(row *table.Row) *bound {
	b := binding.Read(row)
	if b == nil {
		return nil
	}
	// Compared with what the row says later: what decides nothing here is left out.
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

// updatePolicies reads what has changed of exports, views, bindings and the spaces of
// providers, and makes the rules of the spaces that they concern anew.
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

// spaceExport is what a space has of an export.
type spaceExport struct {
	space key.Space
	of    exportID
}

// another says that a Space is another one than before, or is being deleted.
func another(c table.Change) bool {
	return c.Prev == nil || c.Cur == nil || c.Prev.Meta.UID != c.Cur.Meta.UID || c.Prev.Meta.Deleting != c.Cur.Meta.Deleting
}

func (s *step) updateExport(id exportID, c table.Change, exports map[exportID]struct{}) {
	now, was := readExport(id, c.Cur), s.exports[id]
	switch {
	case now == nil:
		delete(s.exports, id)
	case was != nil && reflect.DeepEqual(was.Spec, now.Spec):
		return
	default:
		s.exports[id] = now
	}
	if now != nil || was != nil {
		exports[id] = struct{}{}
	}
}

func (s *step) updateView(in key.Space, name string, c table.Change, exports map[exportID]struct{}) {
	at := key.Shelf{Space: in, Name: name, View: true}
	now, was := readView(at, c.Cur), s.views[at]
	if was != nil && now != nil && reflect.DeepEqual(was, now) {
		return
	}
	if was != nil {
		delete(s.views, at)
		if delete(s.viewsOf[was.of], name); len(s.viewsOf[was.of]) == 0 {
			delete(s.viewsOf, was.of)
		}
		exports[was.of] = struct{}{}
	}
	if now != nil {
		s.views[at] = now
		if s.viewsOf[now.of] == nil {
			s.viewsOf[now.of] = map[string]*view{}
		}
		s.viewsOf[now.of][name] = now
		exports[now.of] = struct{}{}
	}
}

func (s *step) updateBinding(in key.Space, name string, c table.Change, spaces map[spaceExport]struct{}) {
	now, was := readBound(c.Cur), s.bindings[in][name]
	if was != nil && now != nil && reflect.DeepEqual(was, now) {
		return
	}
	if was != nil {
		if delete(s.bindings[in], name); len(s.bindings[in]) == 0 {
			delete(s.bindings, in)
		}
		s.unfollow(in, was.of)
		spaces[spaceExport{in, was.of}] = struct{}{}
	}
	if now != nil {
		if s.bindings[in] == nil {
			s.bindings[in] = map[string]*bound{}
		}
		s.bindings[in][name] = now
		s.follow(in, now.of)
		spaces[spaceExport{in, now.of}] = struct{}{}
	}
}

// follow notes that a space has a binding to an export.
func (e *Engine) follow(in key.Space, of exportID) {
	if e.consumers[of.space] == nil {
		e.consumers[of.space] = map[string]map[key.Space]struct{}{}
	}
	if e.consumers[of.space][of.name] == nil {
		e.consumers[of.space][of.name] = map[key.Space]struct{}{}
	}
	e.consumers[of.space][of.name][in] = struct{}{}
}

// unfollow is the opposite, when one of the bindings of a space is gone.
func (e *Engine) unfollow(in key.Space, of exportID) {
	for _, b := range e.bindings[in] {
		if b.of == of {
			return // it has another
		}
	}
	delete(e.consumers[of.space][of.name], in)
	if len(e.consumers[of.space][of.name]) == 0 {
		delete(e.consumers[of.space], of.name)
	}
	if len(e.consumers[of.space]) == 0 {
		delete(e.consumers, of.space)
	}
}
