package endpoint

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/util/cert"
)

func certificates(t *testing.T) (text string) {
	t.Helper()
	chain, key, err := cert.GenerateSelfSignedCertKey("hub", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(chain) + string(key)
}

func TestSet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	own := "OWN"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(certificates(t))
	s, err := Parse(
		[]string{"https://hub.example:8443/", "public=https://balancer.example/orrery/", "inside=https://[fd00::1]:8443"},
		[]string{"public=" + file, "https://hub.example:8443=system"}, func() []byte { return []byte(own) },
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if e := s.Default(); e.URL != "https://hub.example:8443" || !e.SystemRoots || e.CA != "" {
		t.Errorf("the default is %+v", e)
	}
	public, err := s.Find("public")
	if err != nil || public.URL != "https://balancer.example/orrery" || strings.Contains(public.CA, "KEY") || public.Validate() != nil {
		t.Errorf("public is %+v, %v", public, err)
	}
	inside, err := s.Find("https://[fd00::1]:8443/")
	if err != nil || inside.CA != "OWN" {
		t.Errorf("inside is %+v, %v", inside, err)
	}
	if _, err := s.Find("nowhere"); err == nil || !strings.Contains(err.Error(), "public, inside") {
		t.Errorf("nowhere: %v", err)
	}
	for name, want := range map[string]string{"inside": inside.URL, "": s.Default().URL, "nowhere": s.Default().URL} {
		if all := s.Preferring(name).Endpoints; len(all) != 3 || all[0].URL != want {
			t.Errorf("preferring %q: %v", name, all)
		}
	}
	if hosts := s.Hosts(); !slices.Equal(hosts, []string{"hub.example", "balancer.example", "fd00::1"}) {
		t.Errorf("hosts are %v", hosts)
	}
	if changed, err := s.Reload(); changed || err != nil {
		t.Errorf("nothing has changed: %v %v", changed, err)
	}
	for _, text := range []string{"", "garbage"} {
		write(text)
		if changed, err := s.Reload(); changed || err == nil {
			t.Errorf("%q: %v %v", text, changed, err)
		}
		if now, err := s.Find("public"); err != nil || now != public {
			t.Errorf("%q: public is %+v, %v", text, now, err)
		}
	}
	write(certificates(t))
	if changed, err := s.Reload(); !changed || err != nil {
		t.Errorf("another file: %v %v", changed, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct{ urls, trust []string }{
		"none":            {nil, nil},
		"plain":           {[]string{"http://hub"}, nil},
		"no host":         {[]string{"https://"}, nil},
		"a query":         {[]string{"https://hub?u:p=b"}, nil},
		"a user":          {[]string{"https://u:p@hub"}, nil},
		"dots":            {[]string{"https://hub/a/../b"}, nil},
		"two names":       {[]string{"a=https://hub", "a=https://other"}, nil},
		"twice":           {[]string{"a=https://hub", "b=https://hub/"}, nil},
		"trust of nobody": {[]string{"a=https://hub"}, []string{"b=system"}},
		"no file":         {[]string{"a=https://hub"}, []string{"a="}},
	} {
		if _, err := Parse(c.urls, c.trust, nil); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStrip(t *testing.T) {
	s, err := Parse([]string{"https://hub", "a=https://b/orrery", "b=https://b/orrery/deep"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/spaces/a": "/spaces/a", "/orrery/spaces/a": "/spaces/a", "/orrery/deep/spaces/a": "/spaces/a", "/orreryx/spaces": "/orreryx/spaces",
		"/orrery": "/orrery", "/orrery/": "/", "/orrery/orrery/x": "/orrery/x",
	} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		if got := s.Strip(r).URL.Path; got != want || r.URL.Path != path {
			t.Errorf("%q is %q, want %q; the request itself has %q", path, got, want, r.URL.Path)
		}
	}
	taken := func(path string) bool { return path == "/orrery" }
	if s.Check(taken) == nil || s.Check(func(string) bool { return false }) != nil {
		t.Error("a path that is taken")
	}
}
