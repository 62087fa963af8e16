package conformance

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	"golang.org/x/tools/txtar"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/test/support/env"
)

// atOnce is how many behaviours run at a time: they wait more than they compute.
const atOnce = "8"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// behaviour is something that both sides are to do alike.
type behaviour struct {
	name string
	run  func(*side)
	// differs is why it is right that a space does it otherwise; empty if it does
	// not. The difference has to be that in testdata/differences.txtar: the lines
	// of the real server's transcript behind a minus, those of the space's behind a
	// plus.
	differs string
}

const spaceName = "shop"

// TestConformance runs every behaviour against both sides, and then those that
// are about a server that has forgotten what was.
func TestConformance(t *testing.T) {
	genuine := startReal(t)
	t.Run("all", func(t *testing.T) {
		space := startSpace(t)
		for _, b := range append(behaviours(), definitions()...) {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				b.compare(t, genuine, space)
			})
		}
	})
	t.Run("forgetful", func(t *testing.T) {
		space := startSpace(t, "--window-revisions="+fmt.Sprint(window))
		space.forget = fillWindow
		for _, b := range forgetful() {
			t.Run(b.name, func(t *testing.T) { b.compare(t, genuine, space) })
		}
	})
}

// startReal starts an API server without controllers. Its admission accepts the same objects as a
// space, as far as flags allow.
func startReal(t *testing.T) *server {
	t.Helper()
	cluster := env.StartCluster(t, "real", env.APIOnly(), env.APIServerArgs("--disable-admission-plugins=ServiceAccount,Priority"))
	s := newServer(t, cluster.Config)
	s.forget = func(*side) error { return compact(t.Context(), cluster.EtcdURL()) }
	return s
}

func startSpace(t *testing.T, args ...string) *server {
	t.Helper()
	hub := env.StartHub(t, append([]string{"--unsafe-no-fsync"}, args...)...)
	env.CreateSpace(t, hub.Kubeconfig, spaceName)
	return newServer(t, hub.PathConfig("spaces/"+spaceName))
}

func newServer(t *testing.T, config *rest.Config) *server {
	t.Helper()
	config = rest.CopyConfig(config)
	config.DisableCompression = true
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &server{client: client, url: config.Host}
}

// compare runs the behaviour on both sides at once.
func (b behaviour) compare(t *testing.T, genuine, space *server) {
	t.Helper()
	sides := []*side{newSide(t, genuine, b.name), newSide(t, space, b.name)}
	var running sync.WaitGroup
	for _, s := range sides {
		running.Go(func() {
			defer s.close()
			s.ready()
			b.run(s)
		})
	}
	running.Wait()
	if t.Context().Err() != nil {
		t.Fatal(t.Context().Err())
	}
	lines := diff.Diff("kubernetes", []byte(sides[0].transcript()), "space", []byte(sides[1].transcript()))
	declared := declared(t, b)
	if changed := changedLines(string(lines)); changed != declared {
		t.Errorf("the difference is not the declared one:\n%s\ndeclared:\n%s", lines, declared)
	}
	if sides[0].transcript() == "" {
		t.Error("nothing was compared")
	}
}

// declared is the difference that a behaviour is to show.
func declared(t *testing.T, b behaviour) string {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/differences.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		if f.Name != b.name {
			continue
		}
		if b.differs == "" {
			t.Errorf("nothing says why %q differs", b.name)
		}
		return strings.TrimSuffix(string(f.Data), "\n")
	}
	if b.differs != "" {
		t.Errorf("nothing says how %q differs", b.name)
	}
	return ""
}

// changedLines are the lines of a diff without their surroundings.
func changedLines(diff string) string {
	var changed []string
	for line := range strings.Lines(diff) {
		if strings.HasPrefix(line, "---") || strings.HasPrefix(line, "+++") {
			continue
		}
		if strings.HasPrefix(line, "-") || strings.HasPrefix(line, "+") {
			changed = append(changed, strings.TrimRight(line, "\n"))
		}
	}
	return strings.Join(changed, "\n")
}
