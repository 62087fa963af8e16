package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

const (
	asTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	asJSON  = "application/json"
)

// errNoKubeconfig is returned if neither a flag nor the environment names a kubeconfig with a cluster.
var errNoKubeconfig = errors.New("no kubeconfig: name one with --kubeconfig or KUBECONFIG; a hub writes admin.kubeconfig to its data directory")

// connection finds the hub of a command: by the kubeconfig, with the flags and conventions of
// kubectl.
type connection struct {
	flags *genericclioptions.ConfigFlags
	// space is the space of the command; open sets it.
	space key.Space
}

// newConnection returns a connection. Namespaced commands also accept --namespace.
func newConnection(namespaced bool) *connection {
	all := genericclioptions.NewConfigFlags(true)
	all.Insecure, all.APIServer, all.TLSServerName, all.CAFile = nil, nil, nil, nil
	all.CertFile, all.KeyFile, all.BearerToken = nil, nil, nil
	all.Impersonate, all.ImpersonateUID, all.ImpersonateGroup, all.ImpersonateUserExtra = nil, nil, nil, nil
	all.DisableCompression = nil
	if !namespaced {
		all.Namespace = nil
	}
	return &connection{flags: all}
}

func (c *connection) addFlags(flags *pflag.FlagSet) { c.flags.AddFlags(flags) }

// hubClient makes requests to a hub as the user of a kubeconfig.
type hubClient struct {
	// hub is the URL of the hub, and space the space of the command.
	hub   string
	space key.Space
	rest  *rest.RESTClient
}

// open returns a client for the kubeconfig's hub, without a request. space is the value of a flag;
// if it is empty, open uses the space of the kubeconfig.
func (c *connection) open(space string) (*hubClient, error) {
	raw, err := c.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	if len(raw.Clusters) == 0 {
		return nil, errNoKubeconfig
	}
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	hub, found, err := splitServer(config.Host)
	if err != nil {
		return nil, err
	}
	if space == "" {
		space = found
	}
	if err := key.ValidateName(space); err != nil {
		return nil, fmt.Errorf("space: %w", err)
	}
	c.space = key.Space(space)
	c.flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		config.Host = hub + route.Space(key.Space(space)).String()
		config.QPS = -1
		return config
	}
	config.Host, config.QPS = hub, -1
	config.NegotiatedSerializer = statusCodecs()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for %q: %w", hub, err)
	}
	return &hubClient{hub, c.space, client}, nil
}

// openFor is open for a command whose argument is the name of a space or location. It validates the
// name.
func (c *connection) openFor(cmd *cobra.Command, name string) (*hubClient, string, error) {
	if err := key.ValidateName(name); err != nil {
		return nil, "", badUsage(cmd, "%v", err)
	}
	h, err := c.open("")
	return h, name, err
}

// splitServer splits the server of a kubeconfig, HUB/spaces/NAME, into HUB and NAME. The server of
// a space's reports view also belongs to the space.
func splitServer(server string) (hub, space string, err error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", "", fmt.Errorf("server %q of the kubeconfig: %w", server, err)
	}
	for _, api := range []route.API{route.Exports, route.Slices} {
		if strings.Contains(u.Path, string(api)) {
			return "", "", fmt.Errorf("server %q of the kubeconfig is what the provider of an API sees, and no space (https://HUB/spaces/NAME)", server)
		}
	}
	before, after, ok := strings.Cut(u.Path, string(route.Spaces))
	space, _, _ = strings.Cut(after, "/")
	if !ok || space == "" {
		return "", "", fmt.Errorf("server %q of the kubeconfig is not a space of a hub (https://HUB/spaces/NAME): is it the kubeconfig of a cluster?", server)
	}
	u.Path, u.RawQuery = strings.TrimSuffix(before, strings.TrimSuffix(string(route.ReportViews), "/")), ""
	return strings.TrimSuffix(u.String(), "/"), space, nil
}

// statusCodecs decode the Status of an error response.
func statusCodecs() runtime.NegotiatedSerializer {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	metav1.AddToGroupVersion(scheme, metav1.Unversioned)
	return serializer.NewCodecFactory(scheme).WithoutConversion()
}

// rootPath returns the path of a resource of Orrery in the space root, of an object, or of a
// subresource.
func rootPath(resource key.Resource, names ...string) []string {
	return spacePath(key.Root, resource, names...)
}

// spacePath is rootPath for any space.
func spacePath(space key.Space, resource key.Resource, names ...string) []string {
	return append([]string{route.Space(space).String(), "apis", resource.Group, "v1alpha1", resource.Resource}, names...)
}

// get reads the resource at path into v, in the format accept.
func (h *hubClient) get(ctx context.Context, accept string, v any, path ...string) error {
	return decode(h.rest.Get().AbsPath(path...).SetHeader("Accept", accept).Do(ctx), v)
}

// query sends a query about the space, and reads the response into v.
func (h *hubClient) query(ctx context.Context, question string, query url.Values, v any) error {
	return h.question(ctx, h.rest.Get(), question, query, v)
}

// stream requests the status of the space and its changes. The caller closes the response.
func (h *hubClient) stream(ctx context.Context, query url.Values) (io.ReadCloser, error) {
	request := h.rest.Get().AbsPath(route.Question(h.space).Path(route.Status))
	for name := range query {
		request.Param(name, query.Get(name))
	}
	return request.Stream(ctx)
}

// send sends a query about an object, which is in the request, and reads the response into v.
func (h *hubClient) send(ctx context.Context, question string, query url.Values, object []byte, v any) error {
	return h.question(ctx, h.rest.Post().SetHeader("Content-Type", asJSON).Body(object), question, query, v)
}

func (h *hubClient) question(ctx context.Context, request *rest.Request, question string, query url.Values, v any) error {
	request.AbsPath(route.Question(h.space).Path(question))
	for name := range query {
		request.Param(name, query.Get(name))
	}
	return decode(request.Do(ctx), v)
}

// create creates an object at a path and reads the response into v, which may be nil.
func (h *hubClient) create(ctx context.Context, object, v any, path ...string) error {
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode what to create: %w", err)
	}
	return decode(h.rest.Post().AbsPath(path...).SetHeader("Content-Type", asJSON).Body(body).Do(ctx), v)
}

// merge changes the object at a path by a JSON merge patch.
func (h *hubClient) merge(ctx context.Context, patch any, path ...string) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode the change: %w", err)
	}
	return h.rest.Patch(types.MergePatchType).AbsPath(path...).Body(body).Do(ctx).Error()
}

func (h *hubClient) delete(ctx context.Context, path ...string) error {
	return h.rest.Verb(http.MethodDelete).AbsPath(path...).Do(ctx).Error()
}

// decode reads the JSON of a response; v may be nil.
func decode(result rest.Result, v any) error {
	body, err := result.Raw()
	if err != nil {
		return result.Error() // the error of Raw has no details
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("decode the hub's answer: %w", err)
	}
	return nil
}
