package hub_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

const mapsOfS = "/spaces/s/api/v1/namespaces/default/configmaps"

// creates are ConfigMaps whose names say what they have, and what their writers were answered.
type creates struct {
	*running
	mu       sync.Mutex
	answered map[string]string
}

// named is the name of an object that has a text of a size.
func (c *creates) named(of string, size int) string { return fmt.Sprintf("%s-%d", of, size) }

// sent is an object with a name, as it is sent.
func (c *creates) sent(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"annotations":{"of":%q}},"data":{"k":%q}}`, name, name, textOf(name))
}

// textOf is what the object with a name has.
func textOf(name string) string {
	var size int
	_, _ = fmt.Sscanf(name[strings.LastIndexByte(name, '-')+1:], "%d", &size)
	return strings.Repeat(name+".", size/len(name)+1)[:size]
}

// given is what the hub gives to each object.
var given = regexp.MustCompile(`"(uid|creationTimestamp|time)":"[^"]+"`)

// version is where an object says its revision: in reads it is the first of the metadata.
var version = regexp.MustCompile(`"resourceVersion":"([1-9][0-9]*)",`)

// unversioned is an object as it is stored, and its revision.
func unversioned(told string) (stored, revision string) {
	if at := version.FindStringSubmatchIndex(told); at != nil {
		return strings.TrimSpace(told[:at[0]] + told[at[1]:]), told[at[2]:at[3]]
	}
	return strings.TrimSpace(told), ""
}

// is checks that what is told of the object with a name is all that was sent, and nothing else.
func (c *creates) is(how, name, told string) {
	want := fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":"","creationTimestamp":"","annotations":{"of":%q},`+
		`"managedFields":[{"manager":"Go-http-client","operation":"Update","apiVersion":"v1","time":"","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:k":{}},"f:metadata":{"f:annotations":{".":{},"f:of":{}}}}}]},"data":{"k":%q}}`,
		name, name, textOf(name))
	stored, revision := unversioned(told)
	if got := given.ReplaceAllString(stored, `"$1":""`); got != want || revision == "" {
		c.t.Errorf("%s: %s is\n     %.2000s\nwant %.2000s", how, name, got, want)
	}
}

// ours says whether an object is one of the test.
func ours(name string) bool {
	return strings.HasPrefix(name, "stays-") || strings.HasPrefix(name, "gone-")
}

// sizes are of texts: some do not fit into what is used again, or into what is read at once.
func sizes() []int { return []int{0, 1, 300, 3000, 30_000, 63 << 10, 70_000, 200_000} }

// TestCreatesAreKeptApart has many clients create objects of all sizes at once, some of which hang up
// while they send them or are answered: everyone is answered with what they sent, and that is what
// is in the log, in lists and in watches.
func TestCreatesAreKeptApart(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	c := &creates{running: r, answered: map[string]string{}}
	const writers, leavers = 16, 8
	reading, stop := context.WithCancel(t.Context())
	defer stop()
	var readers, all sync.WaitGroup
	for range 2 {
		watcher := r.as("op", masters)
		watcher.Timeout = 0 // the wait after all writes has its own
		resp := watcher.open(reading, "GET "+mapsOfS+"?watch=true", "")
		defer resp.Body.Close()
		readers.Go(func() { c.watches(resp.Body, writers*len(sizes())) })
		all.Go(func() { c.lists(10) })
	}
	for w := range writers {
		random := seeds.Rand(t, uint64(w))
		all.Go(func() { c.creates(w, random) })
	}
	for w := range leavers {
		random := seeds.Rand(t, uint64(writers+w))
		all.Go(func() { c.leaves(w, random) })
	}
	all.Wait()
	enough := time.AfterFunc(patience, stop)
	readers.Wait()
	enough.Stop()
	c.lists(1)
	for name, was := range c.answered {
		row := r.row(key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "default", Name: name}}.Key())
		if stored, revision := unversioned(was); stored != strings.TrimSpace(string(row.Value)) || revision != fmt.Sprint(row.ModRev) {
			t.Errorf("%s was answered\n     %.2000s\nthe log has at %d\n     %.2000s", name, was, row.ModRev, row.Value)
		}
	}
}

// creates has a client make objects of all sizes.
func (c *creates) creates(w int, random *rand.Rand) {
	client := c.as("op", masters)
	all := sizes()
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, size := range all {
		name := c.named(fmt.Sprintf("stays-%d-%d", w, i), size)
		code, body := client.send("POST "+mapsOfS, c.sent(name))
		if code != http.StatusCreated {
			c.t.Errorf("create %s: %d %.500s", name, code, body)
			continue
		}
		c.is("the answer", name, body)
		c.mu.Lock()
		c.answered[name] = body
		c.mu.Unlock()
	}
}

// leaves begins to create objects, and hangs up. It does so each time over a connection of its own:
// where one is lost, net/http rewinds a body that it may still be sending, which the race detector
// tells of whatever is tested.
func (c *creates) leaves(w int, random *rand.Rand) {
	for i, size := range sizes() {
		client := c.as("op", masters)
		name := c.named(fmt.Sprintf("gone-%d-%d", w, i), size)
		c.sendsHalf(client, name)
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Duration(random.IntN(10_000))*time.Microsecond)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+mapsOfS, strings.NewReader(c.sent(name)))
		if err != nil {
			c.t.Error(err)
		}
		req.Header.Set(contentType, "application/json")
		switch resp, err := client.Do(req); {
		case err == nil:
			_, _ = io.CopyN(io.Discard, resp.Body, int64(size/2))
			_ = resp.Body.Close()
		case !errors.Is(err, context.DeadlineExceeded):
			c.t.Errorf("create %s: %v", name, err)
		}
		cancel()
	}
}

// sendsHalf sends the half of an object that nobody else creates, and hangs up.
func (c *creates) sendsHalf(client client, of string) {
	u, err := url.Parse(c.URL)
	if err != nil {
		c.t.Error(err)
		return
	}
	config := client.Transport.(persistent).RoundTripper.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", u.Host, config)
	if err != nil {
		c.t.Error(err)
		return
	}
	body := c.sent("half-" + of)
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: Go-http-client/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		mapsOfS, u.Host, len(body), body[:len(body)/2])
	_ = conn.Close()
}

// lists reads all objects some times.
func (c *creates) lists(times int) {
	client := c.as("op", masters)
	for range times {
		code, body := client.send("GET "+mapsOfS, "")
		if code != http.StatusOK {
			c.t.Errorf("list: %d %.500s", code, body)
		}
		for _, o := range gjson.Get(body, "items").Array() {
			switch name := o.Get("metadata.name").String(); {
			case strings.HasPrefix(name, "half-"):
				c.t.Errorf("%s was created of half of it", name)
			case ours(name) && (o.Get("data.k").String() != textOf(name) || o.Get("metadata.annotations.of").String() != name):
				c.t.Errorf("a list: %s is %.2000s", name, o.Raw)
			}
		}
	}
}

// watches reads what is created, until that are so many objects of those who stay.
func (c *creates) watches(body io.Reader, stay int) {
	seen := map[string]string{}
	d := json.NewDecoder(body)
	for len(seen) < stay {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		if err := d.Decode(&e); err != nil {
			c.t.Errorf("a watch ended after %d of %d: %v", len(seen), stay, err)
			return
		}
		name := gjson.GetBytes(e.Object, "metadata.name").String()
		if !ours(name) {
			continue
		}
		if c.is("a watch", name, string(e.Object)); e.Type != "ADDED" {
			c.t.Errorf("%s is %s", name, e.Type)
		}
		if strings.HasPrefix(name, "stays-") {
			seen[name] = string(e.Object)
		}
	}
	for name, was := range seen {
		c.mu.Lock()
		if told := c.answered[name]; told != "" {
			answered, at := unversioned(told)
			if shown, seenAt := unversioned(was); shown != answered || seenAt != at {
				c.t.Errorf("%s was answered\n     %.2000s\na watch has\n     %.2000s", name, told, was)
			}
		}
		c.mu.Unlock()
	}
}
