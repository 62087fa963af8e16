package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"orrery.dev/orrery/internal/agent/store"
)

// readStoreKey reads the key of the agent's store; no file: there is none. A file in the
// data directory is refused: who gets the store would get its key.
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
		return nil, fmt.Errorf("look where the key of the store is: %w", err)
	}
	if inside {
		return nil, fmt.Errorf("--store-key-file %q: it is in the data directory, beside what it is to protect", file)
	}
	key := bytes.TrimSpace(content) // an editor or a shell may have added the end of a line
	if len(key) < store.MinKey {
		return nil, fmt.Errorf("--store-key-file %q: %d bytes, want at least %d, such as of: openssl rand -base64 32", file, len(key), store.MinKey)
	}
	return key, nil
}

// isBelow says whether a file is in a directory, which need not exist.
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
