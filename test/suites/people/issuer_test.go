package people

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/keyutil"

	"orrery.dev/orrery/test/support/env"
)

// issuer is an OpenID issuer that runs as a process of its own.
type issuer struct {
	url string
	// ca is the authority of its certificate, PEM.
	ca string
}

const redirect = "http://localhost:9999/auth/callback"

func startIssuer(t *testing.T) *issuer {
	t.Helper()
	dir := t.TempDir()
	cert, key := selfSigned(t)
	for name, text := range map[string]string{"cert.pem": cert, "key.pem": key, "users.json": users("jane", "joe")} {
		write(t, filepath.Join(dir, name), text)
	}
	line := env.StartProgram(t, "oidc", "--cert", filepath.Join(dir, "cert.pem"), "--key", filepath.Join(dir, "key.pem"),
		"--users", filepath.Join(dir, "users.json"), "--redirect", redirect)
	_, address, ok := strings.Cut(line, "oidc ready: ")
	if !ok {
		t.Fatalf("the issuer prints %q", line)
	}
	return &issuer{strings.TrimSpace(address), cert}
}

// selfSigned is a certificate for this machine, and its key.
func selfSigned(t *testing.T) (cert, keyText string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(keyPEM)
}

// signIn signs a user in as a browser and a client do, by the authorization code flow, and
// returns their ID token.
func (i *issuer) signIn(t *testing.T, user string) string {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(i.ca))
	var code string
	browser := &http.Client{
		Jar: jar, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
		CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			if strings.HasPrefix(r.URL.String(), redirect) { // where the client would listen
				code = r.URL.Query().Get("code")
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
	defer browser.CloseIdleConnections()
	var endpoints struct {
		Authorize string `json:"authorization_endpoint"`
		Token     string `json:"token_endpoint"`
	}
	known, err := browser.Get(i.url + "/.well-known/openid-configuration")
	if err != nil {
		t.Fatal(err)
	}
	err = json.NewDecoder(known.Body).Decode(&endpoints)
	if _ = known.Body.Close(); err != nil {
		t.Fatal(err)
	}
	query := url.Values{"client_id": {"orrery"}, "redirect_uri": {redirect}, "response_type": {"code"}, "scope": {"openid"}, "state": {"s"}, "nonce": {"n"}}
	page, err := browser.Get(endpoints.Authorize + "?" + query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	_ = page.Body.Close() // the form's fields are known
	form := url.Values{"id": {page.Request.URL.Query().Get("authRequestID")}, "username": {user}, "password": {password}}
	if resp, err := browser.PostForm(i.url+"/login/username", form); err != nil || resp.Body.Close() != nil || code == "" {
		t.Fatalf("sign in at %s: %v", page.Request.URL, err)
	}
	exchange := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoints.Token, strings.NewReader(exchange.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth("orrery", "secret")
	resp, err := browser.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	var got struct {
		IDToken string `json:"id_token"`
	}
	if err != nil || json.Unmarshal(text, &got) != nil || got.IDToken == "" {
		t.Fatalf("trade the code: %s %s %v", resp.Status, text, err)
	}
	return got.IDToken
}
