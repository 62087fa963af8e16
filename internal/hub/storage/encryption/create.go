package encryption

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"

	"orrery.dev/orrery/internal/lib/atomicfile"
)

// FileName is the name of the configuration in a hub's data directory.
const FileName = "encryption.yaml"

// keySize is the key size of secretbox.
const keySize = 32

// secretbox uses nonces of 24 random bytes, so its key is good for any number of writes. A key of
// aesgcm must be replaced before 2^32 writes, and reports are written often.
const content = `# By this file the hub encrypts Secrets in its log. Without the keys in it they can't be
# read, neither in the log nor in a copy of it: keep a copy, as of ca.key, and not beside
# copies of the log. All hubs that share a log need the same file. How to change the keys
# is described in docs/operations/backup.md.
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - secretbox:
      keys:
      - name: key1
        secret: %s
  - identity: {} # reads values that were written without encryption
`

// Create creates a configuration with a new key, unless the file exists.
func Create(file string) (made bool, err error) {
	if _, err := os.Lstat(file); !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	var key [keySize]byte
	_, _ = rand.Read(key[:]) // never fails
	text := fmt.Sprintf(content, base64.StdEncoding.EncodeToString(key[:]))
	if err := atomicfile.WriteFile(file, []byte(text), 0o600); err != nil {
		return false, fmt.Errorf("write the encryption configuration: %w", err)
	}
	return true, nil
}
