package encryption

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	kms "k8s.io/apiserver/pkg/storage/value/encrypt/envelope/testing/v2"

	"orrery.dev/orrery/internal/protocol/key"
)

var (
	quiet     = slog.New(slog.DiscardHandler)
	plaintext = []byte(`{"data":{"password":"aHVudGVyMg=="},"kind":"Secret"}`)
)

// Keys of the log.
func secret(name string) string {
	return key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "secrets"), Namespace: "n", Name: name}}.Key()
}

func object(group, resource string) string {
	return key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource(group, resource), Namespace: "n", Name: "x"}}.Key()
}

func report(k string, origin key.Origin) string {
	o, err := key.ParseObject(k)
	if err != nil {
		panic(err)
	}
	return key.Report{Location: "paris", Origin: origin, Object: o}.Key()
}

// Keys of configurations.
var (
	key1 = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	key2 = "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="
)

const identity = `{identity: {}}`

func provider(kind string, secrets ...string) string {
	var keys []string
	for _, s := range secrets {
		keys = append(keys, fmt.Sprintf(`{name: k%.4s, secret: %s}`, s, s))
	}
	return fmt.Sprintf(`{%s: {keys: [%s]}}`, kind, strings.Join(keys, ", "))
}

// rule is an entry of a configuration's resources.
func rule(resources string, providers ...string) string {
	return fmt.Sprintf("- {resources: [%s], providers: [%s]}\n", resources, strings.Join(providers, ", "))
}

func write(t *testing.T, file string, rules ...string) string {
	t.Helper()
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n" + strings.Join(rules, "")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func configured(t *testing.T, rules ...string) *Sealer {
	t.Helper()
	return opened(t, write(t, filepath.Join(t.TempDir(), "config.yaml"), rules...))
}

func opened(t *testing.T, file string) *Sealer {
	t.Helper()
	s, err := Open(file, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func seal(t *testing.T, s *Sealer, k string) []byte {
	t.Helper()
	kept, err := s.Seal(t.Context(), k, plaintext)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// reads checks that a value is decrypted.
func reads(t *testing.T, s *Sealer, k string, kept []byte, wantStale bool) {
	t.Helper()
	got, stale, err := s.Open(t.Context(), k, kept)
	if err != nil || !bytes.Equal(got, plaintext) || stale != wantStale {
		t.Errorf("%s: %q, stale %v, %v; want stale %v", k, got, stale, err, wantStale)
	}
}

// refuses checks that a value is not decrypted, and that the error names its key and contains
// nothing of the value.
func refuses(t *testing.T, s *Sealer, k string, kept []byte) {
	t.Helper()
	got, _, err := s.Open(t.Context(), k, kept)
	if !errors.Is(err, ErrUnreadable) || got != nil || !strings.Contains(err.Error(), k) || strings.Contains(err.Error(), "aHVudGVyMg") {
		t.Errorf("%s: %q, %v", k, got, err)
	}
}

// TestDefault tests the configuration that the first start creates.
func TestDefault(t *testing.T) {
	file := filepath.Join(t.TempDir(), FileName)
	for _, want := range []bool{true, false} { // the second time, it stays
		if made, err := Create(file); err != nil || made != want {
			t.Fatal(made, err)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	s := opened(t, file)
	for _, k := range []string{secret("a"), report(secret("a"), key.Placed), report(secret("a"), key.Upsynced)} {
		kept := seal(t, s, k)
		if bytes.Contains(kept, []byte("hunter")) || bytes.Contains(kept, []byte("aHVudGVyMg")) || bytes.Contains(kept, []byte("Secret")) {
			t.Errorf("%s is kept as %q", k, kept)
		}
		if again := seal(t, s, k); bytes.Equal(kept, again) {
			t.Errorf("%s is kept in the same way twice", k)
		}
		reads(t, s, k, kept, false)
		reads(t, s, k, plaintext, true) // written without encryption
		for i := range kept {
			broken := bytes.Clone(kept)
			broken[i] ^= 1
			if got, _, err := s.Open(t.Context(), k, broken); err == nil && bytes.Equal(got, plaintext) {
				t.Errorf("%s: byte %d may be any", k, i)
			}
		}
	}
	for _, k := range []string{object("", "configmaps"), object("example.com", "secrets"), report(object("", "configmaps"), key.Placed), key.Enrolment("paris"), key.Marker("m"), "x/y"} {
		if kept := seal(t, s, k); !bytes.Equal(kept, plaintext) || s.Covers(k) {
			t.Errorf("%s is kept as %q", k, kept)
		}
		reads(t, s, k, plaintext, false)
		refuses(t, s, k, seal(t, s, secret("a")))
	}
	other := filepath.Join(t.TempDir(), FileName)
	if _, err := Create(other); err != nil {
		t.Fatal(err)
	}
	refuses(t, opened(t, other), secret("a"), seal(t, s, secret("a")))
}

// TestProviders: for each provider, an encrypted value is valid only for its key of the log, and
// only with its own encryption key.
func TestProviders(t *testing.T) {
	for name, rules := range map[string][2]string{
		"secretbox": {provider("secretbox", key1), provider("secretbox", key2)},
		"aescbc":    {provider("aescbc", key1), provider("aescbc", key2)},
		"aesgcm":    {provider("aesgcm", key1), provider("aesgcm", key2)},
		"kms":       {plugin(t, "one"), plugin(t, "two")},
	} {
		t.Run(name, func(t *testing.T) {
			s := configured(t, rule("secrets", rules[0]))
			kept := seal(t, s, secret("a"))
			if bytes.Contains(kept, []byte("aHVudGVyMg")) {
				t.Errorf("kept as %q", kept)
			}
			reads(t, s, secret("a"), kept, false)
			for _, k := range []string{secret("b"), report(secret("a"), key.Placed), strings.Replace(secret("a"), "o/s/", "o/z/", 1)} {
				refuses(t, s, k, kept)
			}
			refuses(t, s, secret("a"), plaintext) // this configuration rejects values that are not encrypted
			refuses(t, configured(t, rule("secrets", rules[1], identity)), secret("a"), kept)
			next := configured(t, rule("secrets", rules[1], rules[0], identity))
			reads(t, next, secret("a"), kept, true)
			refuses(t, next, secret("b"), kept)
			back := configured(t, rule("secrets", identity, rules[0]))
			reads(t, back, secret("a"), kept, true)
			if kept := seal(t, back, secret("a")); !bytes.Equal(kept, plaintext) {
				t.Errorf("as it is, it is kept as %q", kept)
			}
			reads(t, back, secret("a"), plaintext, false)
		})
	}
}

// plugin runs a KMS plugin, as a provider.
func plugin(t *testing.T, name string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kms") //nolint:usetesting // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	_ = kms.NewBase64Plugin(t, socket)
	return fmt.Sprintf(`{kms: {apiVersion: v2, name: %s, endpoint: "unix://%s"}}`, name, socket)
}

// TestWildcards tests which resources a configuration covers, as for an API server.
func TestWildcards(t *testing.T) {
	s := configured(t, rule("configmaps, pandas.example.com", provider("secretbox", key1)), rule("'*.apps'", provider("aesgcm", key1)), rule("'*.*'", provider("aescbc", key1)))
	for k, want := range map[string]string{
		object("", "configmaps"):                          "k8s:enc:secretbox:v1:kMDEy:",
		object("example.com", "pandas"):                   "k8s:enc:secretbox:v1:kMDEy:",
		object("apps", "deployments"):                     "k8s:enc:aesgcm:v1:kMDEy:",
		report(object("apps", "deployments"), key.Placed): "k8s:enc:aesgcm:v1:kMDEy:",
		secret("a"):               "k8s:enc:aescbc:v1:kMDEy:",
		object("other", "pandas"): "k8s:enc:aescbc:v1:kMDEy:",
		key.Enrolment("paris"):    "{",
		key.Marker("m"):           "{",
	} {
		if kept := seal(t, s, k); !strings.HasPrefix(string(kept), want) {
			t.Errorf("%s is kept as %.40q, want %q", k, kept, want)
		}
	}
}

// TestBadFiles: invalid files are refused, and the error contains no part of a key.
func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	for name, rules := range map[string]string{
		"no provider":      rule("secrets"),
		"a short key":      rule("secrets", provider("secretbox", "c2hvcnQga2V5")),
		"no key":           rule("secrets", provider("aesgcm")),
		"not base64":       rule("secrets", provider("aesgcm", "c2hvcnQga2V5!")),
		"two providers":    rule("secrets", "{identity: {}, secretbox: {keys: [{name: a, secret: c2hvcnQga2V5}]}}"),
		"an unknown one":   rule("secrets", "{rot13: {secret: c2hvcnQga2V5}}"),
		"masked":           rule("'*.*'", identity) + rule("secrets", identity),
		"no configuration": "c2hvcnQga2V5",
	} {
		_, err := Open(write(t, filepath.Join(dir, "f"), rules), quiet)
		if err == nil || strings.Contains(err.Error(), "c2hvcnQga2V5") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(filepath.Join(dir, "none"), quiet); err == nil {
		t.Error("a file that is not there")
	}
}

// TestFollow changes the file while it is used. Keys that can't read present values, or values that
// are written in the meantime, are not loaded.
func TestFollow(t *testing.T) {
	one, two := provider("secretbox", key1), provider("secretbox", key2)
	file := filepath.Join(t.TempDir(), "config.yaml")
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, write(t, file, rule("secrets", one, identity)))
		var mu sync.Mutex // guards the variables below
		there := map[string][]byte{secret("a"): seal(t, s, secret("a"))}
		adoptions := 0
		adopted := func() int {
			mu.Lock()
			defer mu.Unlock()
			return adoptions
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- s.Follow(ctx, func(ctx context.Context, keys *Keys) error {
				mu.Lock()
				defer mu.Unlock()
				for k, kept := range there {
					if _, _, err := keys.Open(ctx, k, kept); err != nil {
						return err
					}
				}
				return nil
			}, func() {
				mu.Lock()
				defer mu.Unlock()
				adoptions++
			})
		}()
		for _, step := range []struct {
			name      string
			rules     []string
			adopted   bool
			first     string
			meanwhile func()
		}{
			{"another key alone", []string{rule("secrets", two, identity)}, false, key1, nil},
			{"none", nil, false, key1, nil},
			{"no encryption of what is encrypted", []string{rule("configmaps", one, identity)}, false, key1, nil},
			{"as it was", []string{rule("secrets", one, identity)}, false, key1, nil},
			{"the new key behind the old one", []string{rule("secrets", one, two, identity)}, true, key1, nil},
			{"the new key first", []string{rule("secrets", two, one, identity)}, true, key2, nil},
			{"the old one gone too early", []string{rule("secrets", two, identity)}, false, key2, func() {
				there[secret("a")] = seal(t, s, secret("a")) // it is tried again
			}},
			{"no plain values", []string{rule("secrets", two)}, true, key2, nil},
			{"another resource, of which values are plain", []string{rule("secrets", two), rule("configmaps", two)}, false, key2, nil},
			{"another resource", []string{rule("secrets", two), rule("configmaps", two, identity)}, true, key2, nil},
		} {
			before := adopted()
			if step.rules != nil {
				write(t, file, step.rules...)
			} else if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			<-time.After(pollInterval + time.Millisecond)
			synctest.Wait()
			if step.adopted != (adopted() > before) {
				t.Errorf("%s: %d adoptions, refused: %v", step.name, adopted()-before, s.Refused())
			}
			if kept := seal(t, s, secret("a")); !bytes.HasPrefix(kept, fmt.Appendf(nil, "k8s:enc:secretbox:v1:k%.4s:", step.first)) {
				t.Errorf("%s: sealed as %.40q", step.name, kept)
			}
			if same := step.name == "as it was"; (s.Refused() == nil) != (step.adopted || same) {
				t.Errorf("%s: refused: %v", step.name, s.Refused())
			}
			if step.meanwhile == nil {
				continue
			}
			mu.Lock()
			step.meanwhile()
			mu.Unlock()
			<-time.After(retry + pollInterval)
			synctest.Wait()
			if adopted() == before || s.Refused() != nil {
				t.Errorf("%s: not once it can be: %v", step.name, s.Refused())
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestOthersCostNothing measures the work for each value that is not encrypted.
func TestOthersCostNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), FileName)
	if _, err := Create(file); err != nil {
		t.Fatal(err)
	}
	s, k, ctx := opened(t, file), object("apps", "deployments"), t.Context()
	if n := testing.AllocsPerRun(100, func() {
		kept, err := s.Seal(ctx, k, plaintext)
		if _, _, err2 := s.Open(ctx, k, kept); err != nil || err2 != nil || s.Covers(k) {
			t.Error(err, err2)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSeal(b *testing.B) {
	file := filepath.Join(b.TempDir(), FileName)
	if _, err := Create(file); err != nil {
		b.Fatal(err)
	}
	s, err := Open(file, quiet)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	value := bytes.Repeat([]byte("x"), 1<<10)
	for name, k := range map[string]string{"secret": secret("a"), "other": object("apps", "deployments")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				kept, err := s.Seal(b.Context(), k, value)
				if err != nil {
					b.Fatal(err)
				}
				if _, _, err := s.Open(b.Context(), k, kept); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
