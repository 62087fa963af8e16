// Package bearer has the bearer tokens of people and programs: their text, and the record
// that the log keeps of each, which has a hash of it.
//
// It must never know who may have one, nor what it is good for.
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
	// prefix is how the tokens begin; those who look for leaked secrets go by it.
	prefix = "orr_t_"
	// idLength makes IDs that nobody guesses twice, of the 32 characters of rand.Text.
	idLength = 12
)

// Record is what the log keeps of a token.
type Record struct {
	// User and Groups are whose it is.
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
	// Scope is what it is limited to; nil: nothing.
	Scope *Scope `json:"scope,omitempty"`
	// Role is the one that it gives in the space of the scope, by one of the groups.
	Role string `json:"role,omitempty"`
	// Hash is the SHA-256 digest of the secret, which has the entropy of a key and needs
	// no salt.
	Hash string `json:"hash"`
	// Created and Expires are when it was made, and when it ends.
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	// Description says what it is for.
	Description string `json:"description,omitempty"`
	// By is the user who made it. From is the ID of the token that its owner made it
	// with; it ends with that.
	By   string `json:"by"`
	From string `json:"from,omitempty"`
}

// Scope is one space, which a credential is limited to.
type Scope struct {
	Space key.Space `json:"space"`
	// UID is that of the Space object: one that is made again under the name is
	// another space. It is empty for the space root, which has no such object.
	UID string `json:"uid,omitempty"`
}

// NewID makes an ID for a token. It is no secret.
func NewID() string { return strings.ToLower(rand.Text()[:idLength]) }

// New makes the token of an ID: its text, and the encoded record to store.
func New(id string, r Record) (text string, value []byte, err error) {
	secret := rand.Text()
	r.Hash = hash(secret)
	if value, err = json.Marshal(r); err != nil {
		return "", nil, fmt.Errorf("encode the record of token %q: %w", id, err)
	}
	return prefix + id + "." + secret, value, nil
}

// Parse takes apart a token's text. It returns false for what is no such token.
func Parse(text string) (id, secret string, ok bool) {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return "", "", false
	}
	id, secret, ok = strings.Cut(rest, ".")
	return id, secret, ok && IsID(id)
}

// IsID says whether a text can be the ID of a token.
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

// Matches says whether the record is of the token with a secret.
func (r *Record) Matches(secret string) bool {
	return r.Hash != "" && subtle.ConstantTimeCompare([]byte(hash(secret)), []byte(r.Hash)) == 1
}

func hash(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}
