package credential

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"orrery.dev/orrery/internal/agent/diskkey"
)

// sealUse is what the key of the file is derived for.
const sealUse = "orrery-agent credential"

// ErrKey says that the credential is encrypted with another key than the one given, or that
// none was given.
var ErrKey = errors.New("it is encrypted with another key")

// sealedFile is a file that is encrypted.
type sealedFile struct {
	Salt   []byte `json:"salt"`
	ID     []byte `json:"id"`
	Sealed []byte `json:"sealed"`
}

// sealFile encrypts what a file is to have; without a key that stays as it is.
func sealFile(key *diskkey.Key, b []byte) ([]byte, error) {
	if key == nil {
		return b, nil
	}
	return json.Marshal(sealedFile{key.Salt, key.ID, key.Seal(b, []byte(file))})
}

// unsealFile decrypts what a file has, and returns the key that it is encrypted by; nil: by
// none.
func unsealFile(b, secret []byte) ([]byte, *diskkey.Key, error) {
	var f sealedFile
	if err := json.Unmarshal(b, &f); err != nil || len(f.Sealed) == 0 {
		return b, nil, err
	}
	if len(secret) == 0 {
		return nil, nil, fmt.Errorf("%w: none was given", ErrKey)
	}
	key, err := diskkey.Derive(secret, f.Salt, sealUse)
	if err != nil {
		return nil, nil, err
	}
	if !bytes.Equal(key.ID, f.ID) {
		return nil, nil, ErrKey
	}
	b, err = key.Open(f.Sealed, []byte(file))
	if err != nil {
		return nil, nil, fmt.Errorf("decrypt it: %w", err)
	}
	return b, key, nil
}
