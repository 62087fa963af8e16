package advertise

import (
	"fmt"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"orrery.dev/orrery/internal/hub/auth"
	"orrery.dev/orrery/internal/lib/atomicfile"
	"orrery.dev/orrery/internal/protocol/key"
)

// WriteKubeconfig writes a kubeconfig for the administrator, which has all rights, with the space
// root as its context. It returns the name of the file.
func (c *Endpoints) WriteKubeconfig() (file string, err error) {
	pair, err := c.config.Authority.Client(auth.AdminUser, user.SystemPrivilegedGroup)
	if err != nil {
		return "", err
	}
	const name = "orrery"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server: c.SpaceURL(key.Root), CertificateAuthorityData: []byte(c.urls.Default().CA),
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.Cert, ClientKeyData: pair.Key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
	config.CurrentContext = name
	text, err := clientcmd.Write(*config)
	if err == nil {
		err = atomicfile.WriteFile(c.config.Kubeconfig, text, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("write %q: %w", c.config.Kubeconfig, err)
	}
	return c.config.Kubeconfig, nil
}
