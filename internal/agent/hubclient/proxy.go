package hubclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// maxProxyFile bounds the file with a proxy's URL, in bytes.
const maxProxyFile = 16 << 10

// Proxy is the proxy to the hub. The zero Proxy uses the environment: HTTPS_PROXY and NO_PROXY.
// Its errors never contain a password.
type Proxy struct {
	// URL is the proxy's URL: http://HOST:PORT, or socks5://HOST:PORT.
	URL string
	// File contains such a URL, which may have a user and a password. It is read for each
	// connection, so that the password can be changed.
	File string
}

// Validate returns an error if the proxy is not valid.
func (p Proxy) Validate() error {
	if p.URL != "" && p.File != "" {
		return errors.New("both a proxy's URL and a file with one are given: want one of them")
	}
	if p.URL == "" {
		return nil
	}
	u, err := parseProxy(p.URL, "the proxy's URL")
	if err != nil {
		return err
	}
	if _, secret := u.User.Password(); secret {
		return errors.New("the proxy's URL has a password, which all users of the machine can see: put it into a file")
	}
	return nil
}

// parseProxy parses a URL. Its errors do not contain the URL.
func parseProxy(text, what string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "socks5" && u.Scheme != "socks5h" {
		return nil, fmt.Errorf("%s is not valid: want http://[USER:PASSWORD@]HOST:PORT, or socks5://", what)
	}
	return u, nil
}

// urlFor returns the URL of the proxy for a request; nil for none.
func (p Proxy) urlFor(r *http.Request) (*url.URL, error) {
	switch {
	case p.File != "":
		info, err := os.Stat(p.File)
		if err == nil && info.Size() > maxProxyFile {
			err = fmt.Errorf("it has more than %d bytes", maxProxyFile)
		}
		var text []byte
		if err == nil {
			text, err = os.ReadFile(p.File)
		}
		if err != nil {
			return nil, fmt.Errorf("read the file with the proxy's URL: %w", err)
		}
		return parseProxy(string(text), fmt.Sprintf("the proxy's URL in %q", p.File))
	case p.URL != "":
		return parseProxy(p.URL, "the proxy's URL")
	}
	u, err := http.ProxyFromEnvironment(r)
	if err != nil || u == nil && !usableInEnvironment() { // the error contains the password
		return nil, errors.New("HTTPS_PROXY in the agent's environment is not the URL of a proxy")
	}
	return u, nil
}

// usableInEnvironment reports whether the proxy of the environment can be parsed: net/http
// ignores an invalid one without an error.
func usableInEnvironment() bool {
	text := cmp.Or(os.Getenv("HTTPS_PROXY"), os.Getenv("https_proxy"))
	if u, err := url.Parse(text); err == nil && (u.Host != "" || text == "") {
		return true
	}
	_, err := url.Parse("http://" + text)
	return err == nil
}

// refusal returns an error if a proxy rejects the connection.
func refusal(_ context.Context, proxy *url.URL, request *http.Request, response *http.Response) error {
	switch {
	case response.StatusCode == http.StatusOK:
		return nil
	case response.StatusCode == http.StatusProxyAuthRequired && proxy.User != nil:
		return fmt.Errorf("the proxy %s rejects the user and password (%s)", proxy.Host, response.Status)
	case response.StatusCode == http.StatusProxyAuthRequired:
		return fmt.Errorf("the proxy %s requires a user and a password (%s)", proxy.Host, response.Status)
	default:
		return fmt.Errorf("the proxy %s does not connect to %s (%s)", proxy.Host, request.Host, response.Status)
	}
}
