package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// renderCommand is `orrery render`.
type renderCommand struct {
	connection            *connection
	streams               genericiooptions.IOStreams
	output                output
	space, location, file string
	all                   bool
}

func newRender(streams genericiooptions.IOStreams) *cobra.Command {
	y := &renderCommand{connection: newConnection(true), streams: streams}
	cmd := &cobra.Command{
		Use:   "render (KIND/NAME | -f FILE) (--location L | --all-locations)",
		Short: "Show an object as a location gets it",
		Long: `Show an object of a space as a location gets it, or would get it if it were placed
there: without the fields that are not sent, and with the rules of all matching Customizers.
A location with namespaces: Prefixed places it in another namespace, which the output names.
With --all-locations, there is one document for all locations that get the same object.

With -f the object is read from a file and is not stored. The space applies it as a dry run,
for which you need the right to write it.

` + objectHelp + `.
The command fails if a rule fails for a location, which then keeps its present object.`,
		Example: `  orrery render deployment/web --location berlin
  orrery render -f web.yaml --all-locations`,
		Args: want(0, 2, objectArgs),
		RunE: y.run,
	}
	y.connection.addFlags(cmd.Flags())
	y.output.addFlag(cmd, formatYAML, formatJSON)
	cmd.Flags().StringVarP(&y.space, "space", "S", "", "space (default that of the kubeconfig)")
	cmd.Flags().StringVarP(&y.location, "location", "L", "", "location")
	cmd.Flags().BoolVar(&y.all, "all-locations", false, "all locations of the space")
	cmd.Flags().StringVarP(&y.file, "filename", "f", "", "a file with one object, - for the standard input")
	return cmd
}

func (y *renderCommand) run(cmd *cobra.Command, args []string) error {
	if err := y.output.check(cmd); err != nil {
		return err
	}
	switch {
	case y.all == (y.location != ""):
		return badUsage(cmd, "give --location or --all-locations")
	case (y.file != "") == (len(args) > 0):
		return badUsage(cmd, "give %s or -f", objectArgs)
	case !y.all:
		if err := key.ValidateName(y.location); err != nil {
			return badUsage(cmd, "location: %v", err)
		}
	}
	h, err := y.connection.open(y.space)
	if err != nil {
		return err
	}
	var made queries.Renderings
	if y.file != "" {
		err = y.askFile(cmd.Context(), h, &made)
	} else {
		err = y.askObject(cmd, h, args, &made)
	}
	if err != nil {
		return err
	}
	return y.print(made)
}

func (y *renderCommand) query(id key.Identity) url.Values {
	return url.Values{"object": {id.String()}, "location": {y.location}}
}

func (y *renderCommand) askObject(cmd *cobra.Command, h *hubClient, args []string, made *queries.Renderings) error {
	kind, name, err := splitObject(cmd, args)
	if err != nil {
		return err
	}
	id, err := y.connection.identity(kind, name)
	if err != nil {
		return err
	}
	return h.query(cmd.Context(), route.Render, y.query(id), made)
}

// askFile renders the object in a file, as the space would store it.
func (y *renderCommand) askFile(ctx context.Context, h *hubClient, made *queries.Renderings) error {
	u, err := y.read()
	if err != nil {
		return err
	}
	kinds, err := y.connection.flags.ToRESTMapper()
	if err != nil {
		return fmt.Errorf("find the kinds of the space: %w", err)
	}
	gvk := u.GroupVersionKind()
	mapping, err := kinds.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return fmt.Errorf("space %q: %w", y.connection.space, err)
	}
	id := key.Identity{Resource: key.NewResource(mapping.Resource.Group, mapping.Resource.Resource), Name: u.GetName()}
	path := []string{route.Space(h.space).String(), "apis", gvk.Group, gvk.Version}
	if gvk.Group == "" {
		path = []string{route.Space(h.space).String(), "api", gvk.Version}
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if id.Namespace = u.GetNamespace(); id.Namespace == "" {
			if id.Namespace, _, err = y.connection.flags.ToRawKubeConfigLoader().Namespace(); err != nil {
				return fmt.Errorf("read the kubeconfig: %w", err)
			}
			u.SetNamespace(id.Namespace)
		}
		path = append(path, "namespaces", id.Namespace)
	}
	body, err := json.Marshal(u.Object)
	if err != nil {
		return fmt.Errorf("encode the object: %w", err)
	}
	stored, err := h.rest.Patch(types.ApplyPatchType).AbsPath(append(path, mapping.Resource.Resource, id.Name)...).
		Param("dryRun", metav1.DryRunAll).Param("fieldManager", "orrery-render").Param("force", "true").
		SetHeader("Accept", asJSON).Body(body).Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("ask the space how it would store the object: %w", err)
	}
	return h.send(ctx, route.Render, y.query(id), stored, made)
}

// read reads the object in the file.
func (y *renderCommand) read() (*unstructured.Unstructured, error) {
	in := y.streams.In
	if y.file != "-" {
		file, err := os.Open(y.file)
		if err != nil {
			return nil, fmt.Errorf("open the object: %w", err)
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	u := &unstructured.Unstructured{}
	if err := runtime.DecodeInto(unstructured.UnstructuredJSONScheme, asJSON, u); err != nil {
		return nil, fmt.Errorf("read the object: %w", err)
	}
	if u.GetName() == "" {
		return nil, errors.New("read the object: it has no metadata.name")
	}
	return u, nil
}

// errHeld is returned when some locations keep their present object.
var errHeld = errors.New("some locations keep their present object")

// print prints the rendered objects, with their locations if there may be several.
func (y *renderCommand) print(made queries.Renderings) error {
	var held error
	for _, r := range made.Renderings {
		if y.all {
			var names []string
			for _, l := range r.Locations {
				names = append(names, string(l))
			}
			if _, err := fmt.Fprintf(y.streams.Out, "# %s\n", strings.Join(names, ", ")); err != nil {
				return err
			}
		}
		text := r.Content
		switch {
		case r.Reason != "" && !y.all:
			return fmt.Errorf("%s: %s", r.Reason, r.Message)
		case r.Reason != "":
			held, text = errHeld, "# "+r.Reason+": "+r.Message
		case y.output.format == formatYAML:
			asYAML, err := yaml.JSONToYAML([]byte(text))
			if err != nil {
				return fmt.Errorf("encode the object: %w", err)
			}
			text = strings.TrimSuffix(string(asYAML), "\n")
			if r.Namespace != "" {
				text = "# there in namespace " + r.Namespace + "\n" + text
			}
		}
		if y.all && y.output.format == formatYAML {
			text += "\n---"
		}
		if _, err := fmt.Fprintln(y.streams.Out, text); err != nil {
			return err
		}
	}
	return held
}
