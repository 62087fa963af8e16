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

// Proxy is by which proxy the hub is reached. The zero Proxy goes by the environment:
// HTTPS_PROXY and NO_PROXY. Nothing that it says has a password.
type Proxy struct {
	// URL is that of the proxy: http://HOST:PORT, or socks5://HOST:PORT.
	URL string
	// File has such a URL, which may name a user and a password. It is read for each
	// connection, so that the password can be changed.
	File string
}

// Validate says what is wrong with a proxy.
func (p Proxy) Validate() error {
	if p.URL != "" && p.File != "" {
		return errors.New("a proxy's URL and a file with it: want one of them")
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

// parseProxy parses a URL. Its errors do not show it.
func parseProxy(text, what string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "socks5" && u.Scheme != "socks5h" {
		return nil, fmt.Errorf("%s is none: want http://[USER:PASSWORD@]HOST:PORT, or socks5://", what)
	}
	return u, nil
}

// of is the proxy of a request; nil: none.
func (p Proxy) of(r *http.Request) (*url.URL, error) {
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
	if err != nil || u == nil && !usableInEnvironment() { // the error shows the password
		return nil, errors.New("HTTPS_PROXY in the agent's environment is not the URL of a proxy")
	}
	return u, nil
}

// usableInEnvironment says that a proxy that the environment names can be parsed: one that
// can't is otherwise ignored in silence.
func usableInEnvironment() bool {
	text := cmp.Or(os.Getenv("HTTPS_PROXY"), os.Getenv("https_proxy"))
	if u, err := url.Parse(text); err == nil && (u.Host != "" || text == "") {
		return true
	}
	_, err := url.Parse("http://" + text)
	return err == nil
}

// refusal says in plain words why a proxy does not connect.
func refusal(_ context.Context, proxy *url.URL, asked *http.Request, answer *http.Response) error {
	switch {
	case answer.StatusCode == http.StatusOK:
		return nil
	case answer.StatusCode == http.StatusProxyAuthRequired && proxy.User != nil:
		return fmt.Errorf("the proxy %s refuses the user and password that it was given (%s)", proxy.Host, answer.Status)
	case answer.StatusCode == http.StatusProxyAuthRequired:
		return fmt.Errorf("the proxy %s wants a user and a password (%s)", proxy.Host, answer.Status)
	default:
		return fmt.Errorf("the proxy %s does not connect to %s (%s)", proxy.Host, asked.Host, answer.Status)
	}
}
