package cli

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"orrery.dev/orrery/internal/protocol/key"
)

const (
	objectArgs = "KIND/NAME or KIND NAME"
	objectHelp = "KIND may be a kind, a resource or a short name, with a group if need be (deployments.apps)"
)

// splitObject parses KIND/NAME, or KIND NAME as two arguments.
func splitObject(cmd *cobra.Command, args []string) (kind, name string, err error) {
	if len(args) == 2 {
		kind, name = args[0], args[1]
	} else {
		kind, name, _ = strings.Cut(args[0], "/")
	}
	if kind == "" || name == "" || strings.Contains(kind+name, "/") {
		return "", "", badUsage(cmd, "object %q: want %s", strings.Join(args, " "), objectArgs)
	}
	return kind, name, nil
}

// identity resolves the kind of an object by the discovery of the space.
func (c *connection) identity(kind, name string) (key.Identity, error) {
	kinds, err := c.flags.ToRESTMapper()
	if err != nil {
		return key.Identity{}, fmt.Errorf("find the kinds of the space: %w", err)
	}
	mapping, err := mappingFor(kinds, kind)
	if err != nil {
		return key.Identity{}, fmt.Errorf("space %q: %w", c.space, err)
	}
	id := key.Identity{Resource: key.NewResource(mapping.Resource.Group, mapping.Resource.Resource), Name: name}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if id.Namespace, _, err = c.flags.ToRawKubeConfigLoader().Namespace(); err != nil {
			return key.Identity{}, fmt.Errorf("read the kubeconfig: %w", err)
		}
	}
	return id, nil
}

// mappingFor finds a kind as kubectl does: a resource first, then a kind.
func mappingFor(kinds meta.RESTMapper, arg string) (*meta.RESTMapping, error) {
	full, group := schema.ParseResourceArg(strings.ToLower(arg))
	gvk := schema.GroupVersionKind{}
	if full != nil {
		gvk, _ = kinds.KindFor(*full) // if this fails, it may be a resource without a version
	}
	if gvk.Empty() {
		gvk, _ = kinds.KindFor(group.WithVersion("")) // if this fails, it may be a kind
	}
	if gvk.Empty() {
		fullKind, groupKind := schema.ParseKindArg(arg)
		if fullKind != nil {
			gvk = *fullKind
		} else {
			gvk = groupKind.WithVersion("")
		}
	}
	versions := []string{}
	if gvk.Version != "" {
		versions = append(versions, gvk.Version)
	}
	mapping, err := kinds.RESTMapping(gvk.GroupKind(), versions...)
	switch {
	case err == nil:
		return mapping, nil
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("the space has no kind or resource %q", arg)
	case apierrors.IsNotFound(err): // the space's discovery returns this
		return nil, errors.New("the hub has no such space")
	case apierrors.IsForbidden(err):
		return nil, errors.New("the kubeconfig's credential has no rights there")
	default:
		return nil, fmt.Errorf("find kind %q: %w", arg, err)
	}
}

// shownAs is how tables show an identity: its namespace, and resource.group/name.
func shownAs(identity string) (namespace, name string) {
	id, err := key.ParseIdentity(identity)
	if err != nil {
		return "", identity
	}
	resource := id.Resource.Resource
	if group := id.APIGroup(); group != "" {
		resource += "." + group
	}
	return id.Namespace, resource + "/" + id.Name
}

// objectAtLocation is what commands have in common that are about one object at one location.
type objectAtLocation struct {
	connection      *connection
	streams         genericiooptions.IOStreams
	output          output
	space, location string
}

// addFlags adds the flags; format is how the answer is shown if nothing is said.
func (o *objectAtLocation) addFlags(cmd *cobra.Command, format string) {
	o.connection.addFlags(cmd.Flags())
	o.output.addFlag(cmd, format, formatJSON, formatYAML)
	cmd.Flags().StringVarP(&o.space, "space", "S", "", "space (default that of the kubeconfig)")
	cmd.Flags().StringVarP(&o.location, "location", "L", "", "location (required)")
}

// open returns a client for the hub, and the query parameters for object and location.
func (o *objectAtLocation) open(cmd *cobra.Command, args []string) (*hubClient, url.Values, error) {
	if err := o.output.check(cmd); err != nil {
		return nil, nil, err
	}
	if o.location == "" {
		return nil, nil, badUsage(cmd, "no --location given")
	}
	if err := key.ValidateName(o.location); err != nil {
		return nil, nil, badUsage(cmd, "location: %v", err)
	}
	kind, name, err := splitObject(cmd, args)
	if err != nil {
		return nil, nil, err
	}
	h, err := o.connection.open(o.space)
	if err != nil {
		return nil, nil, err
	}
	id, err := o.connection.identity(kind, name)
	if err != nil {
		return nil, nil, err
	}
	return h, url.Values{"object": {id.String()}, "location": {o.location}}, nil
}
