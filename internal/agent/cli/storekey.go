package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"orrery.dev/orrery/internal/agent/store"
)

// readStoreKey reads the key of the agent's store; without a file it returns nil. It rejects a
// file in the data directory, since a thief of the directory would get the key with the store.
func readStoreKey(file, dataDir string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the key of the store: %w", err)
	}
	inside, err := isBelow(dataDir, file)
	if err != nil {
		return nil, fmt.Errorf("resolve the path of the key of the store: %w", err)
	}
	if inside {
		return nil, fmt.Errorf("--store-key-file %q: the file is in the data directory that it is to protect; move it elsewhere", file)
	}
	key := bytes.TrimSpace(content) // an editor or a shell may have added a line break
	if len(key) < store.MinKey {
		return nil, fmt.Errorf("--store-key-file %q: %d bytes, want at least %d, such as of: openssl rand -base64 32", file, len(key), store.MinKey)
	}
	return key, nil
}

// isBelow reports whether a file is in a directory, which need not exist.
func isBelow(dir, file string) (bool, error) {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return false, err
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false, err
	}
	if file, err = filepath.Abs(file); err != nil {
		return false, err
	}
	return strings.HasPrefix(file, dir+string(filepath.Separator)), nil
}
