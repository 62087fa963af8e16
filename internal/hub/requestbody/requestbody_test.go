package requestbody_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/lib/jsonscan"
	"orrery.dev/orrery/test/support/cost"
)

func deep(levels int) string {
	return strings.Repeat(`{"a":[`, levels/2) + strings.Repeat("]}", levels/2)
}

func post(body, contentType string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", io.NopCloser(strings.NewReader(body)))
	r.Header.Set("Content-Type", contentType)
	return r
}

// TestLimits: each way to read a body has the limits of size and depth, with Guard and without, and the answer says the limit.
func TestLimits(t *testing.T) {
	limits := requestbody.Limits{Bytes: 4096}
	var value any
	ways := map[string]func(r *http.Request) error{
		"Read":     func(r *http.Request) error { _, err := requestbody.Read(r, limits); return err },
		"Decode":   func(r *http.Request) error { return requestbody.Decode(r, limits, &value) },
		"Lines":    func(r *http.Request) error { return requestbody.Lines(r, limits).Decode(&value) },
		"ReadYAML": func(r *http.Request) error { _, err := requestbody.ReadYAML(r, limits); return err },
		"Object": func(r *http.Request) error {
			if err := requestbody.Object(r, limits.Bytes-1); err != nil {
				return err
			}
			_, err := io.ReadAll(r.Body)
			return err
		},
	}
	for name, read := range ways {
		for _, guarded := range []bool{true, false} {
			for what, c := range map[string]struct {
				body string
				is   func(error) bool
				text string
			}{
				"as deep as can be": {deep(requestbody.MaxDepth), func(err error) bool { return err == nil }, ""},
				"too deep":          {deep(requestbody.MaxDepth + 2), apierrors.IsBadRequest, "128 levels"},
				"brackets in texts": {`"` + strings.Repeat(`[{\"`, 500) + `"`, func(err error) bool { return err == nil }, ""},
				"closed before":     {strings.Repeat("]", 500) + strings.Repeat("[", 500), func(err error) bool { return err != nil || name == "ReadYAML" }, ""},
				"large":             {`"` + strings.Repeat("x", 5000) + `"`, apierrors.IsRequestEntityTooLargeError, "4096 bytes"},
			} {
				r := post(c.body, "application/json")
				if guarded {
					r = requestbody.Guard(r)
				}
				if err := read(r); !c.is(err) || err != nil && !strings.Contains(err.Error(), c.text) {
					t.Errorf("%s, guarded %t, of a body %s: %v", name, guarded, what, err)
				}
			}
		}
	}
}

// TestGuard: a handler that reads a body by itself has the limits, too, and gets nothing more once the request has ended.
func TestGuard(t *testing.T) {
	r := requestbody.Guard(post(deep(1000), "application/yaml"))
	if again := requestbody.Guard(r); again != r {
		t.Error("a request is guarded twice")
	}
	if _, err := io.ReadAll(r.Body); !apierrors.IsBadRequest(err) {
		t.Errorf("a deep body: %v", err)
	}
	if n, err := r.Body.Read(make([]byte, 8)); n != 0 || !apierrors.IsBadRequest(err) {
		t.Errorf("after its limit, %d bytes are read: %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r = requestbody.Guard(post(`[1,2,3]`, "application/json").WithContext(ctx))
	if n, err := r.Body.Read(make([]byte, 3)); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	cancel()
	if _, err := io.ReadAll(r.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the request: %v", err)
	}
	if r := httptest.NewRequest(http.MethodGet, "/", http.NoBody); requestbody.Guard(r) != r {
		t.Error("a request without a body is guarded")
	}
}

// TestPeek: a body that was read is there again, as far as it goes.
func TestPeek(t *testing.T) {
	r := requestbody.Guard(post("0123456789", ""))
	for _, most := range []int64{4, 10, 20} {
		data, whole, err := requestbody.Peek(r, most)
		if err != nil || whole != (most >= 10) || !strings.HasPrefix("0123456789", string(data)) {
			t.Errorf("peek at %d bytes: %q %t %v", most, data, whole, err)
		}
	}
	if all, err := io.ReadAll(r.Body); err != nil || string(all) != "0123456789" {
		t.Errorf("the body is %q %v", all, err)
	}
	requestbody.Put(r, []byte("other"))
	if all, err := io.ReadAll(r.Body); err != nil || string(all) != "other" {
		t.Errorf("the body is %q %v", all, err)
	}
}

// counted counts the bytes that are read.
type counted struct {
	io.Reader
	read int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

// FuzzBodies: of whatever body, no more is read than its limit allows, it takes memory in proportion to its size, and what is
// accepted is nested no deeper than the limit.
func FuzzBodies(f *testing.F) {
	types := []string{
		"", "application/json", "application/yaml", "application/json-patch+json", "application/merge-patch+json",
		"application/apply-patch+yaml", "application/vnd.kubernetes.protobuf",
	}
	for _, body := range []string{
		``, `{}`, `null`, deep(128), deep(130), deep(20_000), deep(260_000), strings.Repeat("[", 70_000), strings.Repeat("- ", 3000) + "1", strings.Repeat("]", 999) + deep(300),
		"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: &d [*c,*c]\ne: &e [*d,*d]\nf: [*e,*e]\n", `[{"op":"add","path":"/a` + strings.Repeat("/b", 200) + `","value":1}]`,
		"a: |\n  don't " + strings.Repeat("[", 500), `"` + strings.Repeat(`\"[`, 500) + `"`, "\xff\xfe[[", "k8s\x00" + strings.Repeat("\x0a\x7f", 300), `{"a":"` + strings.Repeat("x", 70_000),
	} {
		for i := range types {
			f.Add(byte(i), []byte(body))
		}
	}
	const most = 64 << 10
	f.Fuzz(func(t *testing.T, contentType byte, body []byte) {
		kind := types[int(contentType)%len(types)]
		for _, way := range []string{"Object", "Read", "ReadYAML"} {
			source := &counted{Reader: bytes.NewReader(body)}
			r := post("", kind)
			r.Body = io.NopCloser(source)
			r = requestbody.Guard(r)
			var data []byte
			var err error
			used := cost.Allocated(func() {
				switch way {
				case "Object":
					if err = requestbody.Object(r, most); err == nil {
						data, err = io.ReadAll(io.LimitReader(r.Body, most+1))
					}
				case "Read":
					data, err = requestbody.Read(r, requestbody.Limits{Bytes: most})
				case "ReadYAML":
					data, err = requestbody.ReadYAML(r, requestbody.Limits{Bytes: most})
				}
			})
			if over := source.read - most; over > 64<<10 { // a reader may take a buffer more
				t.Errorf("%s reads %d bytes more than its limit", way, over)
			}
			if used > 64<<20 {
				t.Errorf("%s of %d bytes takes %d bytes of memory", way, len(body), used)
			}
			if err != nil || len(data) > most || way == "Object" && strings.HasSuffix(kind, "protobuf") {
				continue
			}
			if !json.Valid(data) {
				if data, err = yaml.YAMLToJSON(data); err != nil || way == "Read" || !strings.HasSuffix(kind, "yaml") {
					continue
				}
			}
			if jsonscan.Deeper(data, requestbody.MaxDepth) {
				t.Errorf("%s accepts a body that is nested too deeply", way)
			}
		}
	})
}
