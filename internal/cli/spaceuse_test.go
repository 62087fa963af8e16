package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// TestSpaceUseComparesClusters uses an existing context only if it reaches the hub in the same way: with the
// same server, trust, proxy and user.
func TestSpaceUseComparesClusters(t *testing.T) {
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}")) // the client reports an error
	}))
	defer hub.Close()
	for _, c := range []struct{ name, cluster, user, flags, want, wantUser string }{
		{"same", `server: "HUB/spaces/shop"`, "me", "", "old", "me"},
		{"trailing slash", `server: "HUB/spaces/shop/"`, "me", "", "old", "me"},
		{"other proxy", `server: "HUB/spaces/shop", proxy-url: "http://127.0.0.1:1"`, "me", "", "shop", "me"},
		{"other name in certificates", `server: "HUB/spaces/shop", tls-server-name: "other"`, "me", "", "shop", "me"},
		{"other name of the same user", `server: "HUB/spaces/shop"`, "twin", "", "old", "twin"},
		{"other user", `server: "HUB/spaces/shop"`, "you", "", "shop", "me"},
		{"user of a flag", `server: "HUB/spaces/shop"`, "me", "--user=you", "shop", "you"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "kubeconfig")
			text := strings.ReplaceAll(`apiVersion: v1
kind: Config
clusters:
- {name: hub, cluster: {server: "HUB/spaces/root"}}
- {name: old, cluster: {`+c.cluster+`}}
users:
- {name: me, user: {token: "token-x"}}
- {name: twin, user: {token: "token-x"}}
- {name: you, user: {token: "token-y"}}
contexts:
- {name: hub, context: {cluster: hub, user: me}}
- {name: old, context: {cluster: old, user: `+c.user+`}}
current-context: hub
`, "HUB", hub.URL)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"space", "use", "shop", "--kubeconfig", file}
			if c.flags != "" {
				args = append(args, c.flags)
			}
			if code, out, errOut := command(t, args...); code != ExitOK {
				t.Fatalf("exit code %d: %s%s", code, out, errOut)
			}
			config, err := clientcmd.LoadFromFile(file)
			if err != nil {
				t.Fatal(err)
			}
			current := config.Contexts[config.CurrentContext]
			if config.CurrentContext != c.want || current.AuthInfo != c.wantUser {
				t.Errorf("the current context is %q with user %q, want %q with %q", config.CurrentContext, current.AuthInfo, c.want, c.wantUser)
			}
			if cluster := config.Clusters[current.Cluster]; strings.TrimSuffix(cluster.Server, "/") != hub.URL+"/spaces/shop" || cluster.ProxyURL != "" {
				t.Errorf("its cluster is %+v", cluster)
			}
		})
	}
}
