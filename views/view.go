package views

import (
	"fmt"
	"strings"

	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// AllSpaces stands for the spaces of all consumers.
const AllSpaces = string(key.AllSpaces)

// View is what the provider of an API sees: all of an APIExport, a slice of it, or the rest
// that is in no slice.
type View struct{ shelf key.Shelf }

// Export is all that is bound of an APIExport of a space.
func Export(space, name string) View {
	return View{key.Shelf{Space: key.Space(space), Name: name}}
}

// Slice is that of a value of an APIExportView of a space.
func Slice(space, view, value string) View {
	return View{key.Shelf{Space: key.Space(space), Name: view, View: true, Value: value}}
}

// Rest is what is in no slice of an APIExportView of a space.
func Rest(space, view string) View { return Slice(space, view, "") }

// Path is where a hub serves the view: of one space, or of AllSpaces.
func (v View) Path(space string) string {
	root := route.ShelfRoot(v.shelf, key.Space(space))
	return string(root.API) + root.Name
}

// Config is how a client reaches the view of a space, or of AllSpaces. The host of hub is the
// URL of the hub itself; all else is taken over from it.
func (v View) Config(hub *rest.Config, space string) *rest.Config {
	c := rest.CopyConfig(hub)
	c.Host = strings.TrimRight(hub.Host, "/") + v.Path(space)
	return c
}

// In is how a client that reaches a view reaches the same view of a space, or of AllSpaces:
// for a controller that has been given the URL of its slice, and nothing else.
func In(view *rest.Config, space string) (*rest.Config, error) {
	for _, api := range []route.API{route.Exports, route.Slices} {
		at := strings.LastIndex(view.Host, string(api))
		if at < 0 {
			continue
		}
		name := strings.TrimRight(view.Host[at+len(api):], "/")
		if f, _, ok := (route.Root{API: api, Name: strings.ReplaceAll(name, "%2A", "*")}).Shelf(); ok {
			hub := rest.CopyConfig(view)
			hub.Host = view.Host[:at]
			return View{f}.Config(hub, space), nil
		}
	}
	return nil, fmt.Errorf("%q is not the URL of a view", view.Host)
}
