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
	// maxJoin bounds what is read of a join token.
	maxJoin = 1 << 20
)

// setup is what the first start keeps for later ones.
type setup struct {
	Join wire.Join `json:"join"`
	// Kubeconfig is the absolute path of the target's kubeconfig; empty: the cluster the
	// agent runs in. The file is read again while the agent runs, since its credentials change.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Shards is the part of the location that the agent has, K/N; empty: the whole.
	Shards string `json:"shards,omitempty"`
	// LeaseNamespace is where the Lease of the shard is, and LeaseDuration how long it lasts;
	// zero: a default.
	LeaseNamespace string        `json:"leaseNamespace,omitempty"`
	LeaseDuration  time.Duration `json:"leaseDuration,omitempty"`
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
// before is what the data directory had.
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

// shard is the part of the location that the agent has.
func (s setup) shard() (key.Shard, error) {
	if s.Shards == "" {
		return key.Shard{}, nil
	}
	return key.ParseShard(s.Shards)
}

// readJoin is the join token that the flags name, from wherever they say; empty: none.
func (f runFlags) readJoin(stdin io.Reader) (string, error) {
	switch {
	case f.join != "" && f.joinFile != "":
		return "", errors.New("--join and --join-file: give one of them")
	case f.join == "-":
		b, err := io.ReadAll(io.LimitReader(stdin, maxJoin))
		if err == nil && len(b) == 0 {
			err = errors.New("there is none")
		}
		if err != nil {
			return "", fmt.Errorf("--join -: read the join token from standard input: %w", err)
		}
		return string(b), nil
	case f.joinFile != "":
		b, err := os.ReadFile(f.joinFile)
		if errors.Is(err, fs.ErrNotExist) && joined(f.dataDir) {
			return "", nil // it was used, and cleared away
		}
		if err != nil {
			return "", fmt.Errorf("--join-file: %w", err)
		}
		return string(b), nil
	}
	return f.join, nil
}

// joined says whether a data directory is of an agent that was started before.
func joined(dataDir string) bool {
	_, err := os.Stat(filepath.Join(dataDir, setupFile))
	return err == nil
}

// saveAfter saves the setup unless it is as before. An agent that has run before goes on if that fails, as on a full
// disk: the next start needs the flags again.
func (s setup) saveAfter(before setup, dataDir string, log *slog.Logger) error {
	if reflect.DeepEqual(s, before) {
		return nil
	}
	err := s.save(dataDir)
	if err != nil && before.Join.Hub != "" {
		log.Warn("the flags of this start can't be kept for the next one", "error", err)
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
		return fmt.Errorf("keep setup: %w", err)
	}
	if err := atomicfile.WriteFile(filepath.Join(dataDir, setupFile), b, 0o600); err != nil {
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
