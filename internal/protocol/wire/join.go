package wire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// Join contains all that an agent needs to find, trust and authenticate to its hub. It contains a
// secret, so only hub and location are printed.
type Join struct {
	// Hub is the URL of the hub: https://HOST[:PORT][/PREFIX].
	Hub string `json:"hub"`
	// CA contains the certificates of the authorities that sign the hub's certificate, PEM-encoded.
	// With SystemRoots, the agent trusts the certificates of its system instead.
	CA          string `json:"ca,omitempty"`
	SystemRoots bool   `json:"systemRoots,omitempty"`
	// Location is the name of the location that the agent is for.
	Location string `json:"location"`
	// Shard is the number of the agent's shard; absent for the first shard and for the whole
	// location.
	Shard int `json:"shard,omitempty"`
	// Token is the secret that authenticates the agent as its location.
	Token string `json:"token"`
}

// Encode returns the join token: one word, for a command line.
func (j Join) Encode() string {
	b, err := json.Marshal(j)
	if err != nil { // a struct of strings and a number always encodes
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseJoin decodes the output of Encode. It accepts padding and surrounding white space, which
// copying adds.
func ParseJoin(token string) (Join, error) {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(token), "="))
	if err != nil {
		return Join{}, errors.New("join token: not base64url; was it copied in full?")
	}
	var j Join
	if err := json.Unmarshal(b, &j); err != nil {
		return Join{}, errors.New("join token: not the JSON of a join token; was it copied in full?")
	}
	return j, j.Validate()
}

// Validate returns an error if a field is missing or the hub's URL is invalid. The error never
// contains the secret.
func (j Join) Validate() error {
	for _, f := range []struct{ name, value string }{
		{"hub", j.Hub}, {"ca", j.CA}, {"location", j.Location}, {"token", j.Token},
	} {
		if f.value == "" && (f.name != "ca" || !j.SystemRoots) {
			return fmt.Errorf("join token: %s is missing", f.name)
		}
	}
	if _, err := ParseHubURL(j.Hub); err != nil {
		return fmt.Errorf("join token: %w", err)
	}
	return nil
}

// Endpoint returns the first endpoint of the hub for the agent.
func (j Join) Endpoint() Endpoint {
	return Endpoint{URL: strings.TrimRight(j.Hub, "/"), CA: j.CA, SystemRoots: j.SystemRoots}
}

// String omits the secret.
func (j Join) String() string { return fmt.Sprintf("location %q at %s", j.Location, j.Hub) }

// GoString omits the secret.
func (j Join) GoString() string { return j.String() }

// LogValue omits the secret.
func (j Join) LogValue() slog.Value { return slog.StringValue(j.String()) }
