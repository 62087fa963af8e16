package enroll

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"orrery.dev/orrery/internal/key"
)

// Enrolment is what the hub's log keeps of a location's token.
type Enrolment struct {
	// Location is the UID of the location: one that is made again under the same
	// name is another location.
	Location string `json:"location"`
	// Hash is the SHA-256 digest of the token's secret; the secret has the
	// entropy of a key, so it needs no salt.
	Hash string `json:"hash"`
	// Created is when the token was made, RFC 3339.
	Created string `json:"created"`
}

// NewToken makes a token for the location with a UID, and the encoded Enrolment to
// store. The token names its location, so that a hub finds the enrolment to check.
func NewToken(l key.Location, uid string, now time.Time) (token string, enrolment []byte, err error) {
	secret := rand.Text()
	enrolment, err = json.Marshal(Enrolment{Location: uid, Hash: hash(secret), Created: now.UTC().Format(time.RFC3339)})
	if err != nil {
		return "", nil, fmt.Errorf("encode the enrolment of %q: %w", l, err)
	}
	return string(l) + "." + secret, enrolment, nil
}

// TokenLocation is the location that a token claims to be of.
func TokenLocation(token string) (key.Location, bool) {
	l, _, ok := strings.Cut(token, ".")
	return key.Location(l), ok && key.ValidateName(l) == nil
}

// Verify says whether a token is the one that an encoded Enrolment was made for,
// and whether that belongs to the location with the UID.
func Verify(token, uid string, enrolment []byte) bool {
	_, secret, ok := strings.Cut(token, ".")
	var e Enrolment
	if !ok || json.Unmarshal(enrolment, &e) != nil || e.Hash == "" || e.Location != uid {
		return false
	}
	return subtle.ConstantTimeCompare([]byte(hash(secret)), []byte(e.Hash)) == 1
}

func hash(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}
