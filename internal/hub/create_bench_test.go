package hub_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/protocol/route"
)

// BenchmarkWrites creates ConfigMaps of 2 KB, and applies a change to each, as test/bench does: by
// 16 clients, each over a connection of its own. The CPU is that of hub, log and clients.
func BenchmarkWrites(b *testing.B) {
	const clients, size = 16, 2 << 10
	r := start(b, b.TempDir())
	r.addSpace("s")
	all := make([]*http.Client, clients)
	config := r.config(route.Space("s").String())
	for i := range all {
		tls, err := rest.TLSConfigFor(config)
		if err != nil {
			b.Fatal(err)
		}
		transport := &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true}
		wrapped, err := rest.HTTPWrappersForConfig(config, transport)
		if err != nil {
			b.Fatal(err)
		}
		all[i] = &http.Client{Transport: wrapped}
	}
	object := func(name, text string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default"},"data":{"text":%q,"filler":%q}}`,
			name, text, strings.Repeat("x", size))
	}
	send := func(c *http.Client, method, path, content, body string) error {
		req, err := http.NewRequestWithContext(b.Context(), method, config.Host+"/api/v1/namespaces/default/configmaps"+path, bytes.NewReader([]byte(body)))
		if err != nil {
			return err
		}
		req.Header.Set("Accept", "application/json")
		req.Header.Set("Content-Type", content)
		answer, err := c.Do(req)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode >= http.StatusBadRequest {
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		return err
	}
	var made atomic.Int64
	for _, c := range []struct {
		name string
		do   func(c *http.Client, n int64) error
	}{
		{"create", func(c *http.Client, n int64) error {
			return send(c, http.MethodPost, "", "application/json", object(fmt.Sprint("o-", n), "first"))
		}},
		{"apply", func(c *http.Client, n int64) error {
			return send(c, http.MethodPatch, fmt.Sprintf("/a-%d?fieldManager=bench&force=true", n/2), "application/apply-patch+yaml", object(fmt.Sprint("a-", n/2), fmt.Sprint(n)))
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var group errgroup.Group
			var next atomic.Int64
			before := cpu(b)
			for _, client := range all {
				group.Go(func() error {
					for int(next.Add(1)) <= b.N {
						if err := c.do(client, made.Add(1)); err != nil {
							return err
						}
					}
					return nil
				})
			}
			if err := group.Wait(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

// cpu is what the process has taken.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
