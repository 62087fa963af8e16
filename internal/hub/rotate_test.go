package hub_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
	"orrery.dev/orrery/test/support/protocol"
)

// rotate takes steps with the hub's authority, and waits until the hub has taken them over.
func (r *running) rotate(steps ...enroll.Step) {
	r.t.Helper()
	for _, step := range steps {
		if _, err := enroll.Rotate(r.dir, step, time.Now()); err != nil {
			r.t.Fatal(err)
		}
	}
	r.eventually(func() string {
		config, err := os.ReadFile(filepath.Join(r.dir, "admin.kubeconfig"))
		if err != nil || !strings.Contains(string(config), base64.StdEncoding.EncodeToString(r.authority())) {
			return "the operator's kubeconfig is of another authority"
		}
		return ""
	})
}

// authority is what clients of the hub trust.
func (r *running) authority() []byte {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, "ca.crt"))
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// signedBy waits until the status of location a names the authority of its agent's certificate.
func (r *running) signedBy(want string) {
	r.t.Helper()
	r.eventually(func() string {
		var l v1alpha1.Location
		row, _ := r.Table.Get(key.Location("a").Key())
		if err := json.Unmarshal(row.Value, &l); err != nil {
			return err.Error()
		}
		if l.Status.Agent == nil || l.Status.Agent.SignedBy != want {
			return fmt.Sprintf("%+v", l.Status.Agent)
		}
		return ""
	})
}

// ends reads a session to its end, and returns whether the agent was asked to renew, and the last frame.
func (s *stream) ends() (renews bool, bye wire.Bye) {
	s.t.Helper()
	late := time.AfterFunc(timeout, s.Close)
	defer func() {
		if !late.Stop() {
			s.t.Fatal("the session goes on")
		}
	}()
	for {
		f, err := s.Next()
		if err != nil {
			return renews, bye
		}
		if f.Bye != nil {
			bye = *f.Bye
		}
		renews = renews || f.Ping != nil && f.Ping.Renew
	}
}

// TestReplacedAuthority: the hub asks an agent in its session to renew a certificate of a former authority. When
// that authority is removed, all requests with its certificates end. Such a certificate is then valid only for a
// renewal, only if the hub has issued it, and for a limited time.
func TestReplacedAuthority(t *testing.T) {
	t.Parallel() // it waits much of the time
	const life, late = 10 * time.Hour, time.Hour
	var ahead atomic.Int64
	r := start(t, t.TempDir(), func(c *hub.Config) {
		c.CredentialLife, c.CredentialLate, c.Heartbeat = life, late, 50*time.Millisecond
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	r.addLocation("a", nil)
	a := r.join("a")
	uid, stolen := string(r.location("a").UID), t.TempDir()
	if err := os.CopyFS(stolen, os.DirFS(r.dir)); err != nil {
		t.Fatal(err)
	}
	thief, err := enroll.LoadOrCreate(stolen, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	old := wire.Fingerprint(thief.Signer().Raw)
	bearer, err := a.Identity.BearerClient()
	if err != nil {
		t.Fatal(err)
	}
	s := (&testAgent{Client: bearer, r: r, location: "a"}).open(0, "")
	a.tell(wire.AgentStatus{})
	r.signedBy(old)
	r.rotate(enroll.Announce, enroll.Switch)
	unasked := time.AfterFunc(timeout, s.Close)
	for f, err := s.Next(); f.Ping == nil || !f.Ping.Renew; f, err = s.Next() {
		if err != nil {
			t.Fatalf("before the agent was asked to renew: %v", err)
		}
	}
	unasked.Stop()
	r.rotate(enroll.Finish)
	if again, bye := s.ends(); again || bye.Reason != wire.ByeRevoked {
		t.Errorf("it was asked again: %v; the session ended with %+v", again, bye)
	}

	id := *a.Identity
	id.Join.CA = string(r.authority())
	client, err := id.Client()
	if got := opens(t, client, err); got != wire.RefusedExpired {
		t.Errorf("what a former authority has signed is refused with %q", got)
	}
	forged := func(number, joined uint64) *protocol.Identity {
		t.Helper()
		k, request, err := protocol.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		_, agent, err := enroll.KeyOf(request)
		if err != nil {
			t.Fatal(err)
		}
		der, err := thief.Agent(enroll.Credential{Location: "a", UID: uid, Number: number, Joined: joined, Key: agent}, &k.PublicKey, life)
		if err != nil {
			t.Fatal(err)
		}
		return &protocol.Identity{Join: id.Join, Certificate: der, Key: k}
	}
	for number := range uint64(3) {
		for joined := range number + 1 {
			_, err := forged(number+1, joined+1).Renew(t.Context())
			if got := refusal(t, err); got != wire.RefusedSpent && got != wire.RefusedSuperseded {
				t.Errorf("a client with the authority's key has number %d of join %d renewed: %q", number+1, joined+1, got)
			}
		}
	}
	ahead.Store(int64(late + time.Minute))
	_, err = id.Renew(t.Context())
	if got := refusal(t, err); got != wire.RefusedTooLate {
		t.Errorf("after %s a renewal is answered with %q", late, got)
	}
	ahead.Store(0)
	next, err := id.Renew(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client, err = next.Client()
	if got := opens(t, client, err); got != "" {
		t.Errorf("what was renewed is refused with %q", got)
	}
	if _, err := client.Tell(t.Context(), wire.AgentStatus{}); err != nil {
		t.Fatal(err)
	}
	r.signedBy(wire.Fingerprints(r.authority())[0])
	if _, err := id.Renew(t.Context()); refusal(t, err) != wire.RefusedSpent {
		t.Errorf("what was renewed and used is renewed again: %v", err)
	}
	row, _ := r.Table.Get(key.Enrolment("a"))
	if record := enroll.ParseRecord(row.Value, uid); record.Revoked != nil {
		t.Errorf("a client with the key of a former authority locks the agent out: %s", record.Revoked)
	}
}

// TestSessionsEndWithTheirCertificate: an agent is asked to renew in time; one that does not
// is cut off when its certificate ends, and let in again once it has renewed.
func TestSessionsEndWithTheirCertificate(t *testing.T) {
	t.Parallel() // it waits much of the time
	var ahead atomic.Int64
	r := start(t, t.TempDir(), func(c *hub.Config) {
		c.Heartbeat, c.Now = 50*time.Millisecond, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	r.addLocation("a", nil)
	a := r.join("a")
	cert, err := x509.ParseCertificate(a.Identity.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	renews, bye := false, wire.Bye{}
	for left := 2 * time.Second; !renews && left < limit.Wait; left *= 2 { // it may be over before the session is open, or asked
		ahead.Store(int64(time.Until(cert.NotAfter) - left))
		s, err := a.Open(t.Context(), 0, "")
		if refusal(t, err) == "" {
			renews, bye = (&stream{Stream: s, t: t}).ends()
		}
	}
	if !renews || bye.Reason != wire.ByeExpired || !strings.Contains(bye.Message, "credential") {
		t.Errorf("asked to renew: %v; ended with %+v", renews, bye)
	}
	if early := time.Until(cert.NotAfter) - time.Duration(ahead.Load()); early > 0 {
		t.Errorf("the session ended %s before the certificate", early)
	}
	if got := opens(t, a.Client, nil); got != wire.RefusedExpired {
		t.Errorf("another session is refused with %q", got)
	}
	next, err := a.Identity.Renew(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client, err := next.Client()
	if got := opens(t, client, err); got != "" {
		t.Errorf("what was renewed is refused with %q", got)
	}
}

// TestKubeconfigThatCantBeWritten: a rotation is in force also if the operator's kubeconfig
// can't be written, which is made good.
func TestKubeconfigThatCantBeWritten(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), func(c *hub.Config) { c.Heartbeat = time.Minute; c.Disconnected = 2 * time.Minute })
	r.addLocation("a", nil)
	a := r.join("a")
	r.rotate(enroll.Announce, enroll.Switch)
	id := *a.Identity
	id.Join.CA = string(r.authority())
	bearer, err := id.BearerClient()
	if err != nil {
		t.Fatal(err)
	}
	s := (&testAgent{Client: bearer, r: r, location: "a"}).open(0, "")
	inTheWay := filepath.Join(r.dir, "admin.kubeconfig.new")
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := enroll.Rotate(r.dir, enroll.Finish, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, bye := s.ends(); bye.Reason != wire.ByeRevoked {
		t.Errorf("the session ended with %+v", bye)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	r.rotate()
}
