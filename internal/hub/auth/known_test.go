package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

func TestKnownCertificates(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	verified := map[string]int{}
	k := newKnownCertificates(authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
			return nil, false, nil
		}
		name := string(r.TLS.PeerCertificates[0].Raw)
		verified[name]++
		if name == "bad" {
			return nil, false, errors.New("unknown authority")
		}
		return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, true, nil
	}), nil, func() time.Time { return now })

	show := func(name string, valid time.Duration) (string, error) {
		r := &http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: []byte(name), NotAfter: now.Add(valid)}}}}
		response, ok, err := k.AuthenticateRequest(r)
		if !ok {
			return "", err
		}
		return response.User.GetName(), err
	}
	expect := func(name string, valid time.Duration, times int) {
		t.Helper()
		if got, err := show(name, valid); got != name || err != nil {
			t.Errorf("%s is taken for %q: %v", name, got, err)
		}
		if verified[name] != times {
			t.Errorf("%s was verified %d times, want %d", name, verified[name], times)
		}
	}
	expect("ann", time.Hour, 1)
	expect("ann", time.Hour, 1)
	expect("bob", 10*time.Second, 1)
	now = now.Add(11 * time.Second) // bob's certificate has expired
	expect("ann", time.Hour, 1)
	expect("bob", 0, 2)
	now = now.Add(knownFor)
	expect("ann", time.Hour, 2)

	for range 2 {
		if got, err := show("bad", time.Hour); got != "" || err == nil {
			t.Errorf("a refused certificate is taken for %q: %v", got, err)
		}
	}
	if verified["bad"] != 2 {
		t.Errorf("a refusal was remembered")
	}
	if _, ok, err := k.AuthenticateRequest(&http.Request{}); ok || err != nil {
		t.Errorf("without a certificate: %v, %v", ok, err)
	}
}
