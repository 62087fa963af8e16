package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"orrery.dev/orrery/internal/lib/atomicfile"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	setupFile = "setup.json"
	// maxJoin is the maximum size of a join token, in bytes.
	maxJoin = 1 << 20
)

// setup is the configuration that the first start stores for later ones.
type setup struct {
	Join wire.Join `json:"join"`
	// Kubeconfig is the absolute path of the target's kubeconfig; empty for the cluster in
	// which the agent runs. The running agent reads the file again, since its credentials change.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Shards is the agent's shard of the location, K/N; empty for the whole location.
	Shards string `json:"shards,omitempty"`
	// LeaseNamespace is the namespace of the shard's Lease, and LeaseDuration its duration;
	// the zero values stand for the defaults.
	LeaseNamespace string        `json:"leaseNamespace,omitempty"`
	LeaseDuration  time.Duration `json:"leaseDuration,omitempty"`
	// StoreKeyFile is the absolute path of the file with the key of the store; empty if the
	// store is not encrypted.
	StoreKeyFile string `json:"storeKeyFile,omitempty"`
	// ProxyURL is the URL of the proxy to the hub, without a password. ProxyFile is the
	// absolute path of a file with such a URL, which may have a password. If both are empty,
	// the environment (HTTPS_PROXY, NO_PROXY) decides.
	ProxyURL  string `json:"proxyURL,omitempty"`
	ProxyFile string `json:"proxyFile,omitempty"`
}

// loadSetup reads the setup in the data directory, and overrides it with the given flags.
// before is the setup without the flags.
func loadSetup(f runFlags, stdin io.Reader) (s, before setup, err error) {
	join, err := f.readJoin(stdin)
	if err != nil {
		return s, before, err
	}
	b, err := os.ReadFile(filepath.Join(f.dataDir, setupFile))
	switch {
	case err == nil:
		if err := json.Unmarshal(b, &s); err != nil {
			return s, before, fmt.Errorf("decode %s in the data directory: %w", setupFile, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return s, before, fmt.Errorf("read the data directory: %w", err)
	case join == "":
		return s, before, fmt.Errorf("the first start on data directory %q needs --join TOKEN or --join-file FILE, as \"orrery location add\" prints it", f.dataDir)
	}
	before = s
	if join != "" {
		if s.Join, err = wire.ParseJoin(join); err != nil {
			return s, before, err
		}
	}
	if f.kubeconfig != "" {
		if s.Kubeconfig, err = filepath.Abs(f.kubeconfig); err != nil {
			return s, before, fmt.Errorf("--kubeconfig: %w", err)
		}
	}
	if f.storeKey != "" {
		if s.StoreKeyFile, err = filepath.Abs(f.storeKey); err != nil {
			return s, before, fmt.Errorf("--store-key-file: %w", err)
		}
	}
	if f.shards != "" {
		shard, err := key.ParseShard(f.shards)
		if err != nil {
			return s, before, fmt.Errorf("--shards: %w", err)
		}
		if s.Shards = shard.String(); shard.Whole() {
			s.Shards = ""
		}
	}
	s.LeaseNamespace, s.LeaseDuration = cmp.Or(f.leaseNamespace, s.LeaseNamespace), cmp.Or(f.leaseDuration, s.LeaseDuration)
	err = s.setProxy(f)
	return s, before, err
}

// shard returns the agent's shard of the location.
func (s setup) shard() (key.Shard, error) {
	if s.Shards == "" {
		return key.Shard{}, nil
	}
	return key.ParseShard(s.Shards)
}

// readJoin returns the join token from the flag, the file or standard input, as the flags
// specify; empty if they specify none.
func (f runFlags) readJoin(stdin io.Reader) (string, error) {
	switch {
	case f.join != "" && f.joinFile != "":
		return "", errors.New("--join and --join-file: give one of them")
	case f.join == "-":
		b, err := io.ReadAll(io.LimitReader(stdin, maxJoin))
		if err == nil && len(b) == 0 {
			err = errors.New("the input is empty")
		}
		if err != nil {
			return "", fmt.Errorf("--join -: read the join token from standard input: %w", err)
		}
		return string(b), nil
	case f.joinFile != "":
		b, err := os.ReadFile(f.joinFile)
		if errors.Is(err, fs.ErrNotExist) && joined(f.dataDir) {
			return "", nil // the token was used and its file deleted
		}
		if err != nil {
			return "", fmt.Errorf("--join-file: %w", err)
		}
		return string(b), nil
	}
	return f.join, nil
}

// joined reports whether an agent was started on a data directory before.
func joined(dataDir string) bool {
	_, err := os.Stat(filepath.Join(dataDir, setupFile))
	return err == nil
}

// saveAfter saves the setup if it differs from before. If an agent that has run before cannot save it, such as on a
// full disk, it runs nevertheless: the next start needs the flags again.
func (s setup) saveAfter(before setup, dataDir string, log *slog.Logger) error {
	if reflect.DeepEqual(s, before) {
		return nil
	}
	err := s.save(dataDir)
	if err != nil && before.Join.Hub != "" {
		log.Warn("the flags cannot be stored; give them again at the next start", "error", err)
		return nil
	}
	return err
}

// save writes the setup to the data directory, readable by its owner only.
func (s setup) save(dataDir string) error {
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode setup: %w", err)
	}
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return fmt.Errorf("store setup: %w", err)
	}
	if err := atomicfile.WriteFile(filepath.Join(dataDir, setupFile), b, 0o600); err != nil {
		return fmt.Errorf("store setup: %w", err)
	}
	return nil
}

// target returns the client configuration of the target cluster.
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
