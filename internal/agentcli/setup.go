package agentcli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"orrery.dev/orrery/internal/wire"
)

const setupFile = "setup.json"

// setup is what the first start keeps for later ones.
type setup struct {
	Join wire.Join `json:"join"`
	// Kubeconfig is the absolute path of the target's kubeconfig; empty: the cluster the
	// agent runs in. The file is read at each start, since its credentials change.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// StoreKeyFile is the absolute path of the file with the key of the store; empty: the
	// store is not encrypted.
	StoreKeyFile string `json:"storeKeyFile,omitempty"`
	// ProxyURL is the proxy by which the hub is reached, without a password; ProxyFile is the
	// absolute path of a file with one that may have one. Without either it is as the
	// environment says.
	ProxyURL  string `json:"proxyURL,omitempty"`
	ProxyFile string `json:"proxyFile,omitempty"`
}

// loadSetup reads the setup in the data directory, and overrides it by the flags given.
func loadSetup(f runFlags) (setup, error) {
	var s setup
	b, err := os.ReadFile(filepath.Join(f.dataDir, setupFile))
	switch {
	case err == nil:
		if err := json.Unmarshal(b, &s); err != nil {
			return s, fmt.Errorf("decode %s in the data directory: %w", setupFile, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return s, fmt.Errorf("read the data directory: %w", err)
	case f.join == "":
		return s, fmt.Errorf("the first start on data directory %q needs --join TOKEN, as \"orrery location add\" prints it", f.dataDir)
	}
	if f.join != "" {
		if s.Join, err = wire.ParseJoin(f.join); err != nil {
			return s, err
		}
	}
	if f.kubeconfig != "" {
		if s.Kubeconfig, err = filepath.Abs(f.kubeconfig); err != nil {
			return s, fmt.Errorf("--kubeconfig: %w", err)
		}
	}
	if f.storeKey != "" {
		if s.StoreKeyFile, err = filepath.Abs(f.storeKey); err != nil {
			return s, fmt.Errorf("--store-key-file: %w", err)
		}
	}
	return s, s.setProxy(f)
}

// save writes the setup to the data directory, readable by its owner only.
func (s setup) save(dataDir string) error {
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode setup: %w", err)
	}
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return fmt.Errorf("create data directory: %w", err)
	}
	path := filepath.Join(dataDir, setupFile)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return fmt.Errorf("keep setup: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("keep setup: %w", err)
	}
	return nil
}

// target is the client configuration of the target cluster.
func (s setup) target() (*rest.Config, error) {
	if s.Kubeconfig == "" {
		c, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("find the target: no --kubeconfig was ever given, and the agent does not run in a cluster: %w", err)
		}
		return c, nil
	}
	c, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of the target: %w", err)
	}
	return c, nil
}
