package hub_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/internal/hub"
)

// issuer is an OpenID issuer with tokens of any content. The issuers of test/suites/people, which are real
// programs, can't sign such tokens.
type issuer struct {
	*httptest.Server
	t   *testing.T
	key *rsa.PrivateKey
}

func startIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{t: t, key: key}
	i.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"}
		if r.URL.Path == "/keys" {
			answer = map[string]any{"keys": []any{map[string]any{
				"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one", "n": base64url(key.N.Bytes()), "e": base64url(big.NewInt(int64(key.E)).Bytes()),
			}}}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(i.Close)
	return i
}

func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// token signs a token of a user with an expiry and further claims.
func (i *issuer) token(user string, life time.Duration, claims map[string]any) string {
	i.t.Helper()
	all := map[string]any{"iss": i.URL, "aud": "orrery", "sub": user, "exp": time.Now().Add(life).Unix(), "iat": time.Now().Add(-time.Minute).Unix()}
	maps.Copy(all, claims)
	text, err := json.Marshal(all)
	if err != nil {
		i.t.Fatal(err)
	}
	signed := base64url([]byte(`{"alg":"RS256","kid":"one"}`)) + "." + base64url(text)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	if err != nil {
		i.t.Fatal(err)
	}
	return signed + "." + base64url(signature)
}

// section is the issuer in an AuthenticationConfiguration, with claim mappings.
func (i *issuer) section(mappings string) string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
	return fmt.Sprintf("- issuer: {url: %q, audiences: [orrery], certificateAuthority: %q}\n  claimMappings: %s\n", i.URL, ca, mappings)
}

// byPrefix maps users and groups as they are, behind a prefix.
const byPrefix = `{username: {claim: sub, prefix: "oidc:"}, groups: {claim: groups, prefix: "oidc:"}}`

const noIssuers = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"

func configOf(sections ...string) string {
	if len(sections) == 0 {
		return noIssuers
	}
	return noIssuers + "jwt:\n" + strings.Join(sections, "")
}

func (r *running) becomesOK(c client, request, message string) {
	r.t.Helper()
	r.eventually(func() string {
		if code, body := c.send(request, ""); code != http.StatusOK || !strings.Contains(body, message) {
			return fmt.Sprintf("%s: %d %s", request, code, body)
		}
		return ""
	})
}

func (r *running) write(file, text string) {
	r.t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		r.t.Fatal(err)
	}
}

// startWith runs a hub with an AuthenticationConfiguration.
func startWith(t *testing.T, config string) (r *running, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "authentication.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, t.TempDir(), func(c *hub.Config) { c.AuthenticationConfig = file }), file
}

// TestIssuers: a user that signs in at an issuer gets the name and groups that the configuration maps, and
// never a name that is reserved for the hub.
func TestIssuers(t *testing.T) {
	t.Parallel()
	i := startIssuer(t)
	r, _ := startWith(t, configOf(i.section(`{username: {expression: "claims.sub"}, groups: {expression: "claims.?groups.orValue([])"}}`)))
	r.addSpace("a")
	r.grant("a", "dev", `{"subjects":[{"kind":"Group","name":"dev"}],"roles":[{"name":"view"}]}`)
	dev := map[string]any{"groups": []string{"dev"}}
	r.becomesOK(r.bearing(i.token("jane", time.Hour, dev)), podsOfA, "")
	for what, c := range map[string]struct {
		token   string
		code    int
		message string
	}{
		"without groups":     {i.token("jane", time.Hour, nil), http.StatusForbidden, ""},
		"expired":            {i.token("jane", -time.Minute, dev), http.StatusUnauthorized, ""},
		"for somebody else":  {i.token("jane", time.Hour, map[string]any{"aud": "other"}), http.StatusUnauthorized, ""},
		"another issuer":     {i.token("jane", time.Hour, map[string]any{"iss": "https://other.example"}), http.StatusUnauthorized, ""},
		"an administrator":   {i.token("jane", time.Hour, map[string]any{"groups": []string{"system:masters"}}), http.StatusUnauthorized, "comes from the hub alone"},
		"the operator":       {i.token("orrery:admin", time.Hour, dev), http.StatusUnauthorized, "comes from the hub alone"},
		"an agent":           {i.token("orrery:location:l", time.Hour, map[string]any{"groups": []string{"orrery:locations"}}), http.StatusUnauthorized, "comes from the hub alone"},
		"a role in a space":  {i.token("jane", time.Hour, map[string]any{"groups": []string{"orrery:space:a:admin"}}), http.StatusUnauthorized, "comes from the hub alone"},
		"nobody's signature": {i.token("jane", time.Hour, dev) + "A", http.StatusUnauthorized, ""},
	} {
		if code, body := r.bearing(c.token).send(podsOfA, ""); code != c.code || !strings.Contains(body, c.message) {
			t.Errorf("%s: %d %s, want %d", what, code, body, c.code)
		}
	}
	// What is made by such a token lives no longer.
	code, made, body := r.bearing(i.token("jane", time.Hour, dev)).mint(`{}`)
	if code != http.StatusOK || time.Until(made.Status.ExpirationTimestamp.Time) > time.Hour {
		t.Errorf("for herself: %d %s", code, body)
	}
	if code, _, body := r.bearing(i.token("jane", time.Hour, dev)).mint(`{"user":"jane","expirationSeconds":7200}`); code != http.StatusForbidden {
		t.Errorf("for longer: %d %s", code, body)
	}
	// A watch ends with the token that it was opened with.
	short := r.bearing(i.token("jane", 3*time.Second, dev))
	short.Timeout = 0 // the watch ends by itself
	watch := short.open(t.Context(), "GET /spaces/a/api/v1/configmaps?watch=1", "")
	defer func() { _ = watch.Body.Close() }()
	if watch.StatusCode == http.StatusOK { // on a slow machine it has ended before
		ends(t, watch)
	}
}

// TestIssuersAreReloaded: a changed file takes effect at once for new and cached authentications, and for open
// watches. An invalid file changes nothing and is reported.
func TestIssuersAreReloaded(t *testing.T) {
	t.Parallel() // it waits much of the time
	one, two := startIssuer(t), startIssuer(t)
	r, file := startWith(t, configOf(one.section(byPrefix)))
	r.addSpace("a")
	r.grant("a", "people", `{"subjects":[{"kind":"User","name":"oidc:jane"},{"kind":"User","name":"oidc:joe"}],"roles":[{"name":"view"}]}`)
	jane, joe := r.bearing(one.token("jane", time.Hour, nil)), r.bearing(two.token("joe", time.Hour, nil))
	jane.Timeout, joe.Timeout = 0, 0 // the watches have no limit but that of each wait
	r.becomesOK(jane, podsOfA, "")
	if code, body := joe.send(podsOfA, ""); code != http.StatusUnauthorized {
		t.Fatalf("of an unknown issuer: %d %s", code, body)
	}
	watch := jane.open(t.Context(), "GET /spaces/a/api/v1/configmaps?watch=1", "")
	defer func() { _ = watch.Body.Close() }()

	refused := func(want string) {
		t.Helper()
		r.becomesOK(r.as("op", masters), "GET /metrics", "orrery_authentication_config_refused "+want+"\n")
	}
	for _, bad := range []string{"jwt: [", noIssuers + "anonymous: {enabled: true}\n", noIssuers + "jwt: [{issuer: {url: http://x}}]\n", noIssuers + "unknown: 1\n", ""} {
		r.write(file, bad)
		refused("1")
		if code, body := jane.send(podsOfA, ""); code != http.StatusOK {
			t.Errorf("with %q: %d %s", bad, code, body)
		}
		r.write(file, configOf(one.section(byPrefix)))
		refused("0")
	}

	// One that is added changes nothing for what is open by the others.
	r.write(file, configOf(one.section(byPrefix), two.section(byPrefix)))
	r.becomesOK(joe, podsOfA, "")
	r.create("a", configMapsGVR, object("v1", "ConfigMap", "default", "one", nil, nil))
	buffer := make([]byte, 1<<16)
	for text := ""; !strings.Contains(text, `"one"`); {
		n, err := watch.Body.Read(buffer)
		if err != nil {
			t.Fatalf("the watch ended: %v", err)
		}
		text += string(buffer[:n])
	}
	ofJoe := joe.open(t.Context(), "GET /spaces/a/api/v1/configmaps?watch=1", "")
	defer func() { _ = ofJoe.Body.Close() }()
	r.write(file, configOf(two.section(byPrefix)))
	ends(t, watch)
	if code, body := jane.send(podsOfA, ""); code != http.StatusUnauthorized {
		t.Errorf("of an issuer that was removed: %d %s", code, body)
	}
	r.becomesOK(joe, podsOfA, "")
	r.write(file, noIssuers)
	ends(t, ofJoe)
}

// TestBadIssuers: a hub does not start with a configuration that it can't use.
func TestBadIssuers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", noIssuers + "anonymous: {enabled: true}\n", noIssuers + "jwt: [{}]\n"} {
		config := hub.DefaultConfig()
		config.DataDir, config.Listen, config.AuthenticationConfig = t.TempDir(), "127.0.0.1:0", filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(config.AuthenticationConfig, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := hub.Run(t.Context(), config, func(hub.Ready) { t.Error("it runs") }); err == nil || !strings.Contains(err.Error(), "authentication configuration") {
			t.Errorf("with %q: %v", text, err)
		}
	}
}
