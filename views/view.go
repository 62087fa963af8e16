package views

import (
	"fmt"
	"strings"

	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// AllSpaces selects the spaces of all consumers.
const AllSpaces = string(key.AllSpaces)

// View is a view of an API provider: the whole of an APIExport, a slice of it, or the rest that is
// in no slice.
type View struct{ exposed key.ExportView }

// Export returns the view of an APIExport in a space.
func Export(space, name string) View {
	return View{key.ExportView{Space: key.Space(space), Name: name}}
}

// Slice returns the view of one value of an APIExportView in a space.
func Slice(space, view, value string) View {
	return View{key.ExportView{Space: key.Space(space), Name: view, View: true, Value: value}}
}

// Rest returns the view of all objects that are in no slice of an APIExportView.
func Rest(space, view string) View { return Slice(space, view, "") }

// Path returns the path at which a hub serves the view, for one space or AllSpaces.
func (v View) Path(space string) string {
	root := route.ExportViewRoot(v.exposed, key.Space(space))
	return string(root.API) + root.Name
}

// Config returns a client configuration for the view, for one space or AllSpaces. The host of hub
// is the URL of the hub itself; all other fields are copied from it.
func (v View) Config(hub *rest.Config, space string) *rest.Config {
	c := rest.CopyConfig(hub)
	c.Host = strings.TrimRight(hub.Host, "/") + v.Path(space)
	return c
}

// In returns the client configuration of a view for another space, or AllSpaces. It is for a
// controller that has only the URL of its slice.
func In(view *rest.Config, space string) (*rest.Config, error) {
	for _, api := range []route.API{route.Exports, route.Slices} {
		index := strings.LastIndex(view.Host, string(api))
		if index < 0 {
			continue
		}
		name := strings.TrimRight(view.Host[index+len(api):], "/")
		if f, _, ok := (route.Root{API: api, Name: strings.ReplaceAll(name, "%2A", "*")}).ExportView(); ok {
			hub := rest.CopyConfig(view)
			hub.Host = view.Host[:index]
			return View{f}.Config(hub, space), nil
		}
	}
	return nil, fmt.Errorf("%q is not the URL of a view", view.Host)
}
