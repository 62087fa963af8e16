package cli

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// TestDescribe shows that errors are one line and name the next step.
func TestDescribe(t *testing.T) {
	resource := func(name string) schema.GroupResource {
		return schema.GroupResource{Group: "orrery.dev", Resource: name}
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{apierrors.NewNotFound(resource("spaces"), "a"), `spaces.orrery.dev "a" not found; see: orrery space list`},
		{apierrors.NewNotFound(resource("locations"), "a"), `locations.orrery.dev "a" not found; see: orrery location list`},
		{fmt.Errorf("space %q: %w", "b", apierrors.NewNotFound(resource("placements"), "a")), `space "b": placements.orrery.dev "a" not found; see: orrery status`},
		{apierrors.NewNotFound(schema.GroupResource{Resource: "spaces"}, "a"), `spaces "a" not found`},
		{apierrors.NewAlreadyExists(resource("locations"), "a"), `locations.orrery.dev "a" already exists; for a new agent: orrery location token a`},
		{apierrors.NewAlreadyExists(resource("spaces"), "a"), `spaces.orrery.dev "a" already exists`},
		{
			&url.Error{Op: "Get", URL: "https://h.example:1/x", Err: &net.DNSError{Name: "h.example", Err: "no such host", IsNotFound: true}},
			`the host "h.example" of the kubeconfig's server has no address: check the server in the kubeconfig, and the DNS of this machine`,
		},
		{errors.New("a\nb"), "a; b"},
	} {
		if got := describe(c.err); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestDescribeUntrusted explains that the kubeconfig is perhaps that of another hub.
func TestDescribeUntrusted(t *testing.T) {
	hub := httptest.NewTLSServer(nil)
	defer hub.Close()
	client, err := rest.HTTPClientFor(&rest.Config{Host: hub.URL, TLSClientConfig: rest.TLSClientConfig{ServerName: "example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Get(hub.URL) //nolint:bodyclose,noctx // it must fail
	if err == nil {
		t.Fatal("the certificate is trusted")
	}
	want := "the kubeconfig does not trust the certificate of " + hub.URL + ": " + x509.UnknownAuthorityError{}.Error()
	if got := describe(err); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "set up anew?") {
		t.Errorf("%q, want %q", got, want)
	}
}
