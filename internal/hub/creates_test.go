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

// creates contains ConfigMaps whose names encode their content, and the responses to their creators.
type creates struct {
	*running
	mu       sync.Mutex
	answered map[string]string
}

// named is the name of an object that has a text of a size.
func (c *creates) named(prefix string, size int) string { return fmt.Sprintf("%s-%d", prefix, size) }

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
func unversioned(body string) (stored, revision string) {
	if match := version.FindStringSubmatchIndex(body); match != nil {
		return strings.TrimSpace(body[:match[0]] + body[match[1]:]), body[match[2]:match[3]]
	}
	return strings.TrimSpace(body), ""
}

// check checks that the received object with a name is exactly the sent one.
func (c *creates) check(how, name, body string) {
	want := fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":"","creationTimestamp":"","annotations":{"of":%q},`+
		`"managedFields":[{"manager":"Go-http-client","operation":"Update","apiVersion":"v1","time":"","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:k":{}},"f:metadata":{"f:annotations":{".":{},"f:of":{}}}}}]},"data":{"k":%q}}`,
		name, name, textOf(name))
	stored, revision := unversioned(body)
	if got := given.ReplaceAllString(stored, `"$1":""`); got != want || revision == "" {
		c.t.Errorf("%s: %s is\n     %.2000s\nwant %.2000s", how, name, got, want)
	}
}

// ours reports whether an object belongs to the test.
func ours(name string) bool {
	return strings.HasPrefix(name, "stays-") || strings.HasPrefix(name, "gone-")
}

// sizes are the sizes of texts; some exceed the reused buffers, or the bytes that are read at once.
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
	enough := time.AfterFunc(timeout, stop)
	readers.Wait()
	enough.Stop()
	c.lists(1)
	for name, response := range c.answered {
		row := r.row(key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "default", Name: name}}.Key())
		if stored, revision := unversioned(response); stored != strings.TrimSpace(string(row.Value)) || revision != fmt.Sprint(row.ModRev) {
			t.Errorf("%s was answered\n     %.2000s\nthe log has at %d\n     %.2000s", name, response, row.ModRev, row.Value)
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
		c.check("the answer", name, body)
		c.mu.Lock()
		c.answered[name] = body
		c.mu.Unlock()
	}
}

// leaves starts to create objects, and disconnects. It uses a new connection each time: after a lost
// connection, net/http rewinds a body that it may still be sending, which the race detector reports.
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

// sendsHalf sends half of an object that no other client creates, and disconnects.
func (c *creates) sendsHalf(client client, name string) {
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
	body := c.sent("half-" + name)
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

// watches reads created objects until it has received a number of objects of the clients that stay.
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
		if c.check("a watch", name, string(e.Object)); e.Type != "ADDED" {
			c.t.Errorf("%s is %s", name, e.Type)
		}
		if strings.HasPrefix(name, "stays-") {
			seen[name] = string(e.Object)
		}
	}
	for name, object := range seen {
		c.mu.Lock()
		if response := c.answered[name]; response != "" {
			answered, createdAt := unversioned(response)
			if shown, seenAt := unversioned(object); shown != answered || seenAt != createdAt {
				c.t.Errorf("%s: the response is\n     %.2000s\na watch has\n     %.2000s", name, response, object)
			}
		}
		c.mu.Unlock()
	}
}
