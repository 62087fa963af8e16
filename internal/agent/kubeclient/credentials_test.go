package kubeclient

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// guardedServer is a server that accepts one token, and a kubeconfig that names it.
type guardedServer struct {
	*httptest.Server
	token      atomic.Pointer[string]
	refused    atomic.Int32
	kubeconfig string
}

func newGuardedServer(t *testing.T) *guardedServer {
	t.Helper()
	s := &guardedServer{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	s.accept("first")
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer "+*s.token.Load() {
			s.refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`))
			return
		}
		_, _ = w.Write([]byte(`{"gitVersion":"v1"}`))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *guardedServer) accept(token string) { s.token.Store(&token) }

// write replaces the kubeconfig.
func (s *guardedServer) write(t *testing.T, change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) {
	t.Helper()
	cluster, user := clientcmdapi.NewCluster(), clientcmdapi.NewAuthInfo()
	cluster.Server = s.URL
	cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	change(cluster, user)
	c := clientcmdapi.NewConfig()
	c.Clusters["c"], c.AuthInfos["c"], c.Contexts["c"] = cluster, user, &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	c.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*c, s.kubeconfig+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.kubeconfig+".new", s.kubeconfig); err != nil {
		t.Fatal(err)
	}
}

// client returns a client that reads the kubeconfig again.
func (s *guardedServer) client(t *testing.T) *Client {
	t.Helper()
	read := func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", s.kubeconfig) }
	config, err := read()
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(config, "test", 1, func(string, int) {}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	Reload(c, read)
	return c
}

// TestReplacedKubeconfig checks that a client uses the credentials of a replaced kubeconfig:
// a token in the kubeconfig, a token in a file, and the certificate of the authority.
func TestReplacedKubeconfig(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, s *guardedServer, token string){
		"token": func(t *testing.T, s *guardedServer, token string) {
			s.write(t, func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Token = token })
		},
		"token file": func(t *testing.T, s *guardedServer, token string) {
			file := s.kubeconfig + ".token"
			if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
				t.Fatal(err)
			}
			s.write(t, func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.TokenFile = file })
		},
		"file of the authority": func(t *testing.T, s *guardedServer, token string) {
			s.write(t, func(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
				file := s.kubeconfig + ".ca"
				if err := os.WriteFile(file, c.CertificateAuthorityData, 0o600); err != nil {
					t.Fatal(err)
				}
				c.CertificateAuthority, c.CertificateAuthorityData, u.Token = file, nil, token
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newGuardedServer(t)
			replace(t, s, "first")
			c := s.client(t)
			if _, err := c.Version(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.accept("second")
			_, err := c.Version(t.Context())
			if err == nil || !strings.Contains(err.Error(), "rejects the agent's credentials") || !Unavailable(err) {
				t.Errorf("with a token that has ended: %v", err)
			}
			replace(t, s, "second")
			c.credentials.expire()
			if _, err := c.Version(t.Context()); err != nil {
				t.Errorf("after the kubeconfig was replaced: %v", err)
			}
		})
	}
}

// TestReplacedAuthority checks that a client trusts another authority of the same server.
func TestReplacedAuthority(t *testing.T) {
	s := newGuardedServer(t)
	s.write(t, func(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
		c.CertificateAuthorityData, u.Token = nil, "first"
	})
	c := s.client(t)
	if _, err := c.Version(t.Context()); err == nil {
		t.Error("the server is trusted without its authority")
	}
	s.write(t, func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Token = "first" })
	c.credentials.expire()
	if _, err := c.Version(t.Context()); err != nil {
		t.Errorf("after the kubeconfig was replaced: %v", err)
	}
}

// TestUnusableKubeconfig checks that a client continues with its last credentials while the kubeconfig cannot
// be used, and that it ignores a kubeconfig with another server.
func TestUnusableKubeconfig(t *testing.T) {
	s, other := newGuardedServer(t), newGuardedServer(t)
	token := func(token string) func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo) {
		return func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Token = token }
	}
	s.write(t, token("first"))
	c := s.client(t)
	if err := os.Remove(s.kubeconfig); err != nil {
		t.Fatal(err)
	}
	c.credentials.expire()
	if _, err := c.Version(t.Context()); err != nil {
		t.Errorf("the kubeconfig is missing, and the credentials are still good: %v", err)
	}
	s.accept("second")
	c.credentials.expire()
	if _, err := c.Version(t.Context()); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("the kubeconfig is missing: %v", err)
	}
	s.write(t, func(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { c.Server, u.Token = other.URL, "second" })
	c.credentials.expire()
	if _, err := c.Version(t.Context()); !errors.Is(err, errOtherServer) || other.refused.Load() > 0 {
		t.Errorf("the kubeconfig names another server: %v; that one received %d requests", err, other.refused.Load())
	}
	s.write(t, func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo) {}) // it is being written
	c.credentials.expire()
	if _, err := c.Version(t.Context()); !errors.Is(err, errNoCredentials) {
		t.Errorf("the kubeconfig has no credentials: %v", err)
	}
	s.write(t, token("second"))
	c.credentials.expire()
	if _, err := c.Version(t.Context()); err != nil {
		t.Errorf("the kubeconfig is whole again: %v", err)
	}
}

// TestHungKubeconfig reads the kubeconfig from a file system that does not respond. Requests continue with the
// last credentials after a bounded wait, and one goroutine reads. Once the file system responds, the next
// request uses the new credentials.
func TestHungKubeconfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := newCredentials(&rest.Config{Host: "https://target", BearerToken: "first"}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		answers, reads := make(chan struct{}), atomic.Int32{}
		c.read = func() (*rest.Config, error) {
			reads.Add(1)
			<-answers
			return &rest.Config{Host: "https://target", BearerToken: "second"}, nil
		}
		first, began := c.client.Load(), time.Now()
		send := func(client *http.Client) (io.ReadCloser, error) {
			if (client == first) != (time.Since(began) < time.Hour) {
				return nil, fmt.Errorf("after %s a request has other credentials than it should", time.Since(began))
			}
			return http.NoBody, nil
		}
		c.expire()
		var requests sync.WaitGroup
		for range 5 {
			requests.Go(func() {
				for range 3 {
					if _, err := c.use(t.Context(), send); err != nil {
						t.Error(err)
					}
				}
			})
		}
		requests.Wait()
		if took := time.Since(began); took > reloadWithin || reads.Load() != 1 {
			t.Errorf("the requests took %s, by %d reads", took, reads.Load())
		}
		if _, err := c.renew(t.Context(), first, 0); !errors.Is(err, errSlowConfiguration) {
			t.Errorf("the cause is %v", err)
		}
		<-time.After(time.Hour)
		close(answers)
		synctest.Wait()
		if _, err := c.use(t.Context(), send); err != nil {
			t.Error(err)
		}
	})
}
