package cli

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// kubeconfigFlags select the credential in a kubeconfig.
type kubeconfigFlags struct {
	tokenFlags
	certificate bool
	exec        execFlags
	// url is the endpoint of the hub, and proxy the proxy in front of it. Empty fields mean those
	// of the present kubeconfig.
	url, proxy string
	view       viewFlags
}

// execFlags select a plugin that gets a credential when it is needed.
type execFlags struct {
	command        string
	args, env      []string
	issuer, client string
	scopes         []string
}

func newSpaceKubeconfig(c *connection, streams genericiooptions.IOStreams) *cobra.Command {
	var f kubeconfigFlags
	cmd := &cobra.Command{
		Use:   "kubeconfig NAME",
		Short: "Print a kubeconfig for a space, with a credential of its own",
		Long: `Print a kubeconfig for a space, with a new credential that is valid only in this
space. It does not contain your own credential. By default the credential is a token
with the role admin in the space, valid for 30 days. "orrery token" lists and revokes
such tokens. With --user or --group and no --role, the token has the rights that
Grants give the user and the groups.

With --certificate the credential is a client certificate. It is valid for at most an
hour, and can't be revoked. With --oidc-issuer or --exec-command there is no credential
in the kubeconfig: clients run a program to get one, for instance kubelogin.

With --reports the kubeconfig is for the reports view, which is read-only. It shows the
objects that locations report about the space as Kubernetes objects: placed objects with
their status there, and objects that were created there.

With --export or --slice the kubeconfig is for the provider of an API: for the objects
of all spaces that have bound it, or for those of one slice. Give it to a controller
with --user, and give this user a Grant in the space for the content of the export or
slice only.
`,
		Example: `  orrery space kubeconfig shop > shop.kubeconfig
  orrery space kubeconfig shop --role view --expires 12h > look.kubeconfig
  orrery space kubeconfig shop --reports > reports.kubeconfig
  orrery space kubeconfig acme --slice by-class:small --user acme-small > small.kubeconfig
  orrery space kubeconfig shop --url inside --proxy-url http://proxy.plant7.example:3128 > plant7.kubeconfig
  orrery space kubeconfig shop --oidc-issuer https://login.example --oidc-client-id orrery > shop.kubeconfig`,
		Args: want(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			h, name, err := c.openFor(cmd, args[0])
			if err != nil {
				return err
			}
			root := f.view.root(key.Space(name))
			config, err := c.kubeconfigFor(name, h.hub+root.String(), nil)
			if err != nil {
				return err
			}
			if err := f.reach(cmd, h, config.Clusters[name]); err != nil {
				return err
			}
			made, err := f.makeCredential(cmd, h, name, root) // last, so that no token is left after an error
			if err != nil {
				return err
			}
			if err := c.try(cmd.Context(), h, made, root); err != nil {
				return err
			}
			config.AuthInfos[name] = made.authInfo
			text, err := clientcmd.Write(*config)
			if err != nil {
				return fmt.Errorf("encode the kubeconfig: %w", err)
			}
			_, err = fmt.Fprintf(streams.Out, "# %s\n%s", made.notice, text)
			return err
		},
	}
	f.add(cmd)
	flags := cmd.Flags()
	f.view.add(flags)
	flags.BoolVar(&f.certificate, "certificate", false, "a client certificate instead of a token; --expires is 1h at most")
	flags.StringVar(&f.url, "url", "", "name or URL under which clients are to reach the hub, one of those that it advertises (default as in the kubeconfig in use)")
	flags.StringVar(&f.proxy, "proxy-url", "", "proxy by which clients are to reach the hub (default as in the kubeconfig in use)")
	flags.StringVar(&f.exec.issuer, "oidc-issuer", "", "URL of the OIDC issuer that users sign in at, by kubelogin")
	flags.StringVar(&f.exec.client, "oidc-client-id", "", "client ID at the OIDC issuer")
	flags.StringArrayVar(&f.exec.scopes, "oidc-scope", nil, "scope to ask the OIDC issuer for, besides openid; may be repeated")
	flags.StringVar(&f.exec.command, "exec-command", "", "program that prints an ExecCredential")
	flags.StringArrayVar(&f.exec.args, "exec-arg", nil, "argument of that program; may be repeated")
	flags.StringArrayVar(&f.exec.env, "exec-env", nil, "NAME=VALUE in the environment of that program; may be repeated")
	return cmd
}

// check sets defaults of flags.
func (f *kubeconfigFlags) check(cmd *cobra.Command) error {
	e := &f.exec
	switch {
	case e.issuer != "" && e.command != "", (e.issuer != "" || e.command != "") && (f.certificate || f.user != "" || len(f.groups) > 0 || f.role != "" || f.expires != ""):
		return badUsage(cmd, "--oidc-issuer, --exec-command and what says whose a token is exclude each other")
	case (e.issuer != "") != (e.client != ""):
		return badUsage(cmd, "--oidc-issuer and --oidc-client-id go together")
	case e.command == "" && len(e.args)+len(e.env) > 0:
		return badUsage(cmd, "--exec-arg and --exec-env need --exec-command")
	}
	for _, one := range e.env {
		if !strings.Contains(one, "=") {
			return badUsage(cmd, "--exec-env %q: want NAME=VALUE", one)
		}
	}
	if err := f.view.check(cmd); err != nil {
		return err
	}
	if f.user == "" && len(f.groups) == 0 {
		f.role = cmp.Or(f.role, string(v1alpha1.RoleAdmin))
	}
	return nil
}

// newCredential is the credential of a new kubeconfig.
type newCredential struct {
	authInfo *clientcmdapi.AuthInfo
	// notice is a message for its owner.
	notice string
	// user is the name of its user, and token the ID of its token. They are empty for a plugin; a
	// certificate has no token.
	user, token string
}

// makeCredential creates the credential, or the plugin that gets one.
func (f *kubeconfigFlags) makeCredential(cmd *cobra.Command, h *hubClient, space string, root route.Root) (c newCredential, err error) {
	ctx := cmd.Context()
	if f.exec.command != "" || f.exec.issuer != "" {
		c.authInfo, c.notice = f.exec.authInfo(), fmt.Sprintf("For space %s. It has no credential: clients run a program to get one.", space)
		return c, h.exists(ctx, root)
	}
	f.description = cmp.Or(f.description, "kubeconfig of space "+space)
	spec, err := f.spec(cmd, space)
	if err != nil {
		return c, err
	}
	c.authInfo = &clientcmdapi.AuthInfo{}
	if f.certificate {
		if spec.Request, c.authInfo.ClientKeyData, err = newRequest(); err != nil {
			return c, err
		}
	}
	made, err := h.makeToken(ctx, spec)
	if err != nil {
		return c, err
	}
	c.user = made.Status.User
	c.notice = fmt.Sprintf("Good for space %s until %s", space, until(&made))
	if f.certificate {
		c.authInfo.ClientCertificateData = []byte(made.Status.Certificate)
		c.notice += ", by a certificate, which can't be revoked."
		return c, nil
	}
	c.authInfo.Token, c.token = made.Status.Token, made.Name
	c.notice += ". To revoke it: orrery token revoke " + made.Name
	return c, nil
}

// revokeTimeout is how long try waits for the revocation of a token.
const revokeTimeout = 5 * time.Second

// try makes a request with a new credential. If the hub refuses the request, the kubeconfig would be
// of no use: try revokes the token and returns the reason.
func (c *connection) try(ctx context.Context, h *hubClient, made newCredential, root route.Root) error {
	if made.user == "" {
		return nil // clients get a credential later
	}
	client, err := c.as(h.hub, made.authInfo)
	if err != nil {
		return err
	}
	err = client.Get().AbsPath(root.String(), "version").Do(ctx).Error()
	if err == nil {
		return nil
	}
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("user %q has no rights at %s, or it does not exist; create it, and a Grant for the user, first", made.user, root)
	}
	if made.token != "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout) // also if the user interrupts
		defer cancel()
		if problem := h.delete(ctx, route.Tokens, made.token); problem != nil {
			err = fmt.Errorf("%w; its token can be removed with: orrery token revoke %s (%w)", err, made.token, problem)
		}
	}
	return err
}

// as returns a client for the hub with another credential. It reaches the hub in the same way.
func (c *connection) as(hub string, user *clientcmdapi.AuthInfo) (*rest.RESTClient, error) {
	own, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config := rest.AnonymousClientConfig(own)
	config.Host, config.NegotiatedSerializer = hub, statusCodecs()
	config.BearerToken, config.CertData, config.KeyData = user.Token, user.ClientCertificateData, user.ClientKeyData
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for %q: %w", hub, err)
	}
	return client, nil
}

// newRequest creates a private key, which does not leave this machine, and a certificate signing
// request for it.
func newRequest() (request string, keyPEM []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	if err != nil {
		return "", nil, fmt.Errorf("make a certificate request: %w", err)
	}
	if keyPEM, err = keyutil.MarshalPrivateKeyToPEM(private); err != nil {
		return "", nil, fmt.Errorf("encode a key: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), keyPEM, nil
}

// exists returns an error if an API does not exist. It returns nil if the caller has no access to it.
func (h *hubClient) exists(ctx context.Context, root route.Root) error {
	err := h.get(ctx, asJSON, nil, root.String(), "version")
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// authInfo returns a plugin that Kubernetes clients can run.
func (e *execFlags) authInfo() *clientcmdapi.AuthInfo {
	run := &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: e.command, Args: e.args, InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode,
	}
	for _, one := range e.env {
		name, value, _ := strings.Cut(one, "=")
		run.Env = append(run.Env, clientcmdapi.ExecEnvVar{Name: name, Value: value})
	}
	if e.issuer != "" {
		run.Command = "kubectl"
		run.Args = []string{"oidc-login", "get-token", "--oidc-issuer-url=" + e.issuer, "--oidc-client-id=" + e.client}
		for _, scope := range e.scopes {
			run.Args = append(run.Args, "--oidc-extra-scope="+scope)
		}
		run.InstallHint = "install kubelogin: https://github.com/int128/kubelogin"
	}
	return &clientcmdapi.AuthInfo{Exec: run}
}

// kubeconfigFor returns a kubeconfig with a single context for a user. It reaches the hub as the
// present kubeconfig does.
func (c *connection) kubeconfigFor(name, server string, user *clientcmdapi.AuthInfo) (*clientcmdapi.Config, error) {
	loaded, err := c.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	raw := *loaded.DeepCopy() // later requests use what was loaded
	if current := *c.flags.Context; current != "" {
		raw.CurrentContext = current
	}
	if err := clientcmdapi.MinifyConfig(&raw); err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	cluster := raw.Clusters[raw.Contexts[raw.CurrentContext].Cluster]
	raw.AuthInfos = nil // files of other users are not read
	if err := clientcmdapi.FlattenConfig(&raw); err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	cluster.Server, cluster.ProxyURL = withoutUser(server), withoutUser(cluster.ProxyURL)
	cluster.LocationOfOrigin = ""
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = cluster
	config.AuthInfos[name] = user
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: metav1.NamespaceDefault}
	config.CurrentContext = name
	return config, nil
}

// withoutUser removes the name and password from a URL.
func withoutUser(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return text
	}
	u.User = nil
	return u.String()
}
