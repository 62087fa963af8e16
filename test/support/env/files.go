package env

import (
	"fmt"
	"net"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Files of a cluster, in its directory.
const (
	servingCert = "serving.crt" // with the CA that signed it
	servingKey  = "serving.key"
	accountKey  = "service-accounts.key"
	tokenFile   = "tokens.csv"
	auditPolicy = "audit-policy.yaml"
	auditLog    = "audit.log"
)

// policy logs every request once, when it has been answered.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
`

// writeFiles writes what the parts read when they start, and makes the clients.
func (c *Cluster) writeFiles() error {
	host, _ := splitAddress(c.address)
	serving, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.ParseIP(host)}, nil)
	if err != nil {
		return fmt.Errorf("make the serving certificate: %w", err)
	}
	account, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("make the service account key: %w", err)
	}
	users := []string{AdminUser, AgentUser, "kube-controller-manager", "kube-scheduler", "kwok"}
	var tokens strings.Builder
	for _, user := range users {
		fmt.Fprintf(&tokens, "%s,%s,%s,system:masters\n", token(user), user, user)
	}
	for name, data := range map[string][]byte{
		servingCert: serving, servingKey: key, accountKey: account,
		tokenFile: []byte(tokens.String()), auditPolicy: []byte(policy),
	} {
		if err := c.writeFile(name, data); err != nil {
			return err
		}
	}
	for _, user := range users {
		config := kubeconfig("https://"+c.address, serving, token(user))
		if err := clientcmd.WriteToFile(*config, c.kubeconfig(user)); err != nil {
			return err
		}
	}
	c.Kubeconfig, c.AgentKubeconfig = c.kubeconfig(AdminUser), c.kubeconfig(AgentUser)
	c.Config = &rest.Config{
		Host: "https://" + c.address, BearerToken: token(AdminUser), TLSClientConfig: rest.TLSClientConfig{CAData: serving}, QPS: -1,
	}
	c.Client, err = kubernetes.NewForConfig(c.Config)
	return err
}

func (c *Cluster) kubeconfig(user string) string { return c.path(user + ".kubeconfig") }

// token is guessable, which does no harm on a loopback address for minutes.
func token(user string) string { return user + "-token" }

func kubeconfig(server string, ca []byte, token string) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["target"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos["user"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["target"] = &clientcmdapi.Context{Cluster: "target", AuthInfo: "user"}
	config.CurrentContext = "target"
	return config
}

// splitAddress splits an address of package ports.
func splitAddress(address string) (host, port string) {
	host, port, _ = strings.Cut(address, ":")
	return host, port
}
