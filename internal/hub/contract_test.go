package hub_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// TestContract shows that the hub keeps to the contract of the agents' protocol.
func TestContract(t *testing.T) {
	protocol.TestHub(t, nil, func(t *testing.T, setStates func(*testing.T, protocol.States)) {
		t.Parallel() // a case waits much of the time
		setStates(t, newContracted(t))
	})
}

// contracted brings about states of a hub.
type contracted struct {
	*running
	agent      *protocol.Client
	copied     string
	placements map[string]bool
}

// contractWindow is how many revisions a session can go back.
const contractWindow = 200

func newContracted(t *testing.T) *contracted {
	c := &contracted{placements: map[string]bool{}}
	c.begin(t, t.TempDir())
	c.addSpace("s")
	c.addSpace("t")
	c.addLocation("a", map[string]string{"where": "x"})
	c.NewToken()
	return c
}

// begin starts a hub on a directory.
func (c *contracted) begin(t testing.TB, dir string) {
	c.running = start(t, dir, func(config *hub.Config) {
		config.Heartbeat, config.WindowRevisions = 200*time.Millisecond, contractWindow
	})
	if c.agent != nil {
		c.agent.Join.Hub = c.URL
	}
}

// Client returns one that keeps its token.
func (c *contracted) Client() *protocol.Client {
	client := *c.agent
	return &client
}

// place makes the Placement by which objects of a sort are at the location.
func (c *contracted) place(s key.Space, sort string, extra map[string]any) {
	if id := string(s) + sort; !c.placements[id] {
		c.placements[id] = true
		c.addPlacement(s, sort, "x", sort, extra)
	}
}

// muchText is from how many bytes on a value is created and not applied: what is applied is YAML, and
// to parse so much of that takes seconds under the race detector.
const muchText = 64 << 10

// desire has the location desire an object of a space as a sort of objects is.
func (c *contracted) desire(s key.Space, sort, name, value string) {
	c.t.Helper()
	made := object("v1", "ConfigMap", "default", name, map[string]string{"what": sort}, map[string]any{"data": map[string]any{"k": value}})
	if len(value) > muchText {
		c.create(s, configMapsGVR, made)
		return
	}
	if _, err := c.space(s).Resource(configMapsGVR).Namespace("default").Apply(c.t.Context(), name, made, metav1.ApplyOptions{FieldManager: "user"}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *contracted) Desire(name, value string) {
	c.t.Helper()
	c.place("s", "app", nil)
	c.desire("s", "app", name, value)
}

func (c *contracted) Protect(name string) {
	c.t.Helper()
	c.place("s", "once", map[string]any{"createOnly": true})
	c.desire("s", "once", name, "1")
}

func (c *contracted) Await(name string) {
	c.t.Helper()
	c.Desire(name, "1")
	c.patch("s", placementsGVR, "", "app", `{"spec":{"waitForRemoval":true}}`)
}

func (c *contracted) Hold(string) {
	c.t.Helper()
	c.patch("s", placementsGVR, "", "app", `{"spec":{"suspend":true}}`)
}

func (c *contracted) Conflict(name string) {
	c.t.Helper()
	c.place("t", "app", nil)
	c.desire("t", "app", name, "theirs")
	c.Desire(name, "ours")
}

func (c *contracted) Impersonate(account string) {
	c.t.Helper()
	admit := "null"
	if account != "" {
		admit = fmt.Sprintf(`[{"impersonate":{"serviceAccount":%q}}]`, account)
	}
	c.patch(key.Root, locationsGVR, "", "a", `{"spec":{"admit":`+admit+`}}`)
}

func (c *contracted) Admit(everything bool) {
	c.t.Helper()
	admit := "[]"
	if everything {
		admit = "null"
	}
	c.patch(key.Root, locationsGVR, "", "a", `{"spec":{"admit":`+admit+`}}`)
}

func (c *contracted) Delete(name string) {
	c.t.Helper()
	if err := c.space("s").Resource(configMapsGVR).Namespace("default").Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *contracted) Unassign(name string) {
	c.t.Helper()
	c.patch("s", configMapsGVR, "default", name, `{"metadata":{"labels":null}}`)
}

func (c *contracted) Pause(paused bool) {
	c.t.Helper()
	mapping := "Active"
	if paused {
		mapping = "Paused"
	}
	c.patch(key.Root, locationsGVR, "", "a", fmt.Sprintf(`{"spec":{"mapping":%q}}`, mapping))
}

func (c *contracted) Prune(percent int) {
	c.t.Helper()
	c.patch(key.Root, locationsGVR, "", "a", fmt.Sprintf(`{"spec":{"prune":{"maxPercent":%d}}}`, percent))
}

func (c *contracted) Accept(marker string) {
	c.t.Helper()
	c.annotate(fmt.Sprintf(`{"orrery.dev/accept":%q}`, marker))
}

func (c *contracted) Purge(purged bool) {
	c.t.Helper()
	word := "null"
	if purged {
		word = `"true"`
	}
	c.annotate(`{"orrery.dev/purge":` + word + `}`)
}

func (c *contracted) Upsync(names ...string) {
	c.t.Helper()
	if len(names) > 0 {
		c.upsyncs("s", `{"resources":["configmaps"],"names":`+text(names)+`}`)
		return
	}
	if err := c.space("s").Resource(placementsGVR).Delete(c.t.Context(), "watch", metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *contracted) Bound(objects int) {
	c.t.Helper()
	c.patch(key.Root, locationsGVR, "", "a", fmt.Sprintf(`{"spec":{"limits":{"upsyncObjects":%d}}}`, objects))
}

func (c *contracted) Associate(name string) {
	c.t.Helper()
	c.place("s", "owner", map[string]any{"associated": []any{map[string]any{"resources": []any{"configmaps"}}}})
	c.desire("s", "owner", name, "1")
}

func (c *contracted) Forget() {
	c.t.Helper()
	for i := range contractWindow + 1 {
		c.desire("s", "other", "other", fmt.Sprint(i))
	}
}

func (c *contracted) Restart() {
	c.t.Helper()
	c.stop()
	c.begin(c.t, c.dir)
}

func (c *contracted) Backup() {
	c.t.Helper()
	c.stop()
	c.copied = filepath.Join(c.t.TempDir(), "copy")
	if err := os.CopyFS(c.copied, os.DirFS(c.dir)); err != nil {
		c.t.Fatal(err)
	}
	c.begin(c.t, c.dir)
}

func (c *contracted) Restore() {
	c.t.Helper()
	c.stop()
	c.begin(c.t, c.copied)
}

func (c *contracted) NewToken() {
	c.t.Helper()
	c.agent = c.join("a").Client
}

func (c *contracted) JoinToken() wire.Join {
	c.t.Helper()
	return c.enrol("a")
}

func (c *contracted) Revoke() {
	c.t.Helper()
	if err := c.space(key.Root).Resource(locationsGVR).Delete(c.t.Context(), "a", metav1.DeleteOptions{}, "token"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *contracted) Remove() {
	c.t.Helper()
	if err := c.space(key.Root).Resource(locationsGVR).Delete(c.t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// patch merges something into an object.
func (c *contracted) patch(s key.Space, gvr schema.GroupVersionResource, namespace, name, patch string) {
	c.t.Helper()
	if _, err := c.space(s).Resource(gvr).Namespace(namespace).Patch(c.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}
