// Package bearer implements bearer tokens of users and programs: their text, and the record of each
// in the log, which contains a hash of the secret.
//
// It must never depend on rights.
package bearer

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// prefix is the prefix of tokens, by which scanners can find leaked ones.
	prefix = "orr_t_"
	// idLength is long enough for unique IDs from the 32 characters of rand.Text.
	idLength = 12
)

// Record is the record of a token in the log.
type Record struct {
	// User and Groups are the user of the token.
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
	// Scope limits the token; nil for no limit.
	Scope *Scope `json:"scope,omitempty"`
	// Role is the role in the space of the scope that one of the groups gives.
	Role string `json:"role,omitempty"`
	// Hash is the SHA-256 digest of the secret, which has the entropy of a key and needs
	// no salt.
	Hash string `json:"hash"`
	// Created and Expires are when the token was created, and when it expires.
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	// Description describes the purpose of the token.
	Description string `json:"description,omitempty"`
	// Creator is the user that created the token. From is the ID of the token with which its user
	// created it; the token becomes invalid with that one.
	Creator string `json:"by"`
	From    string `json:"from,omitempty"`
}

// Scope is the space to which a credential is limited.
type Scope struct {
	Space key.Space `json:"space"`
	// UID is the UID of the Space: a space that is created again with the same name is another one.
	// It is empty for the space root, which has no such object.
	UID string `json:"uid,omitempty"`
}

// NewID returns an ID for a token. It is not secret.
func NewID() string { return strings.ToLower(rand.Text()[:idLength]) }

// New creates the token with an ID. It returns its text and the encoded record.
func New(id string, r Record) (text string, value []byte, err error) {
	secret := rand.Text()
	r.Hash = hash(secret)
	if value, err = json.Marshal(r); err != nil {
		return "", nil, fmt.Errorf("encode the record of token %q: %w", id, err)
	}
	return prefix + id + "." + secret, value, nil
}

// Parse splits the text of a token. It returns false for other texts.
func Parse(text string) (id, secret string, ok bool) {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return "", "", false
	}
	id, secret, ok = strings.Cut(rest, ".")
	return id, secret, ok && IsID(id)
}

// IsID reports whether a text can be the ID of a token.
func IsID(id string) bool {
	return len(id) == idLength && !strings.ContainsFunc(id, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '2' || c > '7') })
}

// Read decodes a record.
func Read(value []byte) (r Record, err error) {
	if err := json.Unmarshal(value, &r); err != nil {
		return r, fmt.Errorf("decode the record of a token: %w", err)
	}
	return r, nil
}

// Matches reports whether the secret belongs to the token of the record.
func (r *Record) Matches(secret string) bool {
	return r.Hash != "" && subtle.ConstantTimeCompare([]byte(hash(secret)), []byte(r.Hash)) == 1
}

func hash(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}
