package enroll

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// given has the credentials that a hub gave to a client: certificates to trust, and one to show.
type given struct {
	trusts *x509.CertPool
	shows  *x509.Certificate
}

// follower is a hub that reads the files of its authority now and then.
type follower struct {
	t         *testing.T
	authority *Authority
	// last is what clients were given since the last change.
	last given
}

func newFollower(t *testing.T, dir string) *follower {
	t.Helper()
	a, err := LoadOrCreate(dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{t: t, authority: a}
	f.last = f.give()
	return f
}

func (f *follower) give() given {
	f.t.Helper()
	pair, err := f.authority.Client("user")
	if err != nil {
		f.t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		f.t.Fatal(err)
	}
	return given{f.authority.Pool(), cert.Leaf}
}

// reload has the hub read its files once. What clients were given before must be good after that.
func (f *follower) reload(what string) (changed bool) {
	f.t.Helper()
	changed, err := f.authority.Reload()
	if err != nil {
		f.t.Fatalf("%s: %v", what, err)
	}
	if _, err := issued(f.t, f.authority).Verify(x509.VerifyOptions{Roots: f.last.trusts}); err != nil {
		f.t.Errorf("%s: a client does not trust the hub: %v", what, err)
	}
	options := x509.VerifyOptions{Roots: f.authority.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := f.last.shows.Verify(options); err != nil {
		f.t.Errorf("%s: the hub does not accept a client: %v", what, err)
	}
	if changed {
		f.last = f.give()
	}
	return changed
}

// TestHubsFollowAnyPrefix takes several steps of rotations, write by write, while a hub reads the files after
// some of the writes. After each reload, the hub and its clients accept what they were given before it, and in the
// end the hub has what the files have.
func TestHubsFollowAnyPrefix(t *testing.T) {
	for _, steps := range [][]Step{
		{Announce, Switch, Finish, Announce, Switch}, {Announce, Switch, Undo, Undo},
	} {
		// states are the contents of the directory before and after each write.
		dir := t.TempDir()
		if _, err := LoadOrCreate(dir, time.Now); err != nil {
			t.Fatal(err)
		}
		states := []string{copyOf(t, dir)}
		for _, step := range steps {
			h, err := read(dir)
			if err != nil {
				t.Fatal(err)
			}
			writes, err := h.writesOf(step, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range writes {
				if err := w.to(dir); err != nil {
					t.Fatal(err)
				}
				states = append(states, copyOf(t, dir))
			}
		}
		// Each pair of states, with no reload between them: the hub reads one, and then the other.
		for i := range states {
			for j := i; j < len(states); j++ {
				what := fmt.Sprintf("%v: from state %d to %d", steps, i, j)
				copied := copyOf(t, states[i])
				f := newFollower(t, copied)
				replaceBy(t, copied, states[j])
				reads := 0
				for f.reload(what) {
					if reads++; reads > 3 {
						t.Fatalf("%s: the hub has not taken over the files after %d reads", what, reads)
					}
				}
				if files, err := os.ReadFile(filepath.Join(copied, certFile)); err != nil || string(files) != string(f.authority.PEM()) {
					t.Errorf("%s: the hub has other certificates than the files: %v", what, err)
				}
			}
		}
		tornReads(t, steps, states)
	}
}

// tornReads has a hub read the certificates of one state and the keys of a later one, as it can if a command
// writes meanwhile. It goes on as before, or takes over what clients accept.
func tornReads(t *testing.T, steps []Step, states []string) {
	t.Helper()
	for i := range states {
		for j := i; j < len(states); j++ {
			copied := copyOf(t, states[i])
			f := newFollower(t, copied)
			signer := f.authority.Signer()
			replaceBy(t, copied, states[j])
			certs, err := os.ReadFile(filepath.Join(states[i], certFile))
			if err == nil {
				err = os.WriteFile(filepath.Join(copied, certFile), certs, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if changed, err := f.authority.Reload(); changed || err != nil && f.authority.Signer() != signer {
				t.Errorf("%v: certificates of state %d, keys of %d: changed %v, %v", steps, i, j, changed, err)
			}
			replaceBy(t, copied, states[j])
			f.reload(fmt.Sprintf("%v: after certificates of state %d with keys of %d", steps, i, j))
		}
	}
}

func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// replaceBy has a directory be as another one.
func replaceBy(t *testing.T, dir, other string) {
	t.Helper()
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.CopyFS(dir, os.DirFS(other))
	}
	if err != nil {
		t.Fatal(err)
	}
}
