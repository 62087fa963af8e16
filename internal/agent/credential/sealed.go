package credential

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"orrery.dev/orrery/internal/agent/diskkey"
)

// sealUse is the purpose of the key of the file, an input of its derivation.
const sealUse = "orrery-agent credential"

// ErrKey is returned when the credential is encrypted with a key other than the given one, or
// when no key is given for an encrypted credential.
var ErrKey = errors.New("it is encrypted with another key")

// sealedFile is the content of an encrypted file.
type sealedFile struct {
	Salt   []byte `json:"salt"`
	ID     []byte `json:"id"`
	Sealed []byte `json:"sealed"`
}

// sealFile encrypts the content of a file; without a key it returns the content unchanged.
func sealFile(key *diskkey.Key, b []byte) ([]byte, error) {
	if key == nil {
		return b, nil
	}
	return json.Marshal(sealedFile{key.Salt, key.ID, key.Seal(b, []byte(file))})
}

// unsealFile decrypts the content of a file and returns the key that encrypts it; nil if the
// file is not encrypted.
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
