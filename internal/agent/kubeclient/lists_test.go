package kubeclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/test/support/limit"
)

// page returns a page of metadata of applied objects, as a kube-apiserver sends it.
func page(objects int) []byte {
	var b strings.Builder
	b.WriteString(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"120817","continue":"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTIw","remainingItemCount":60602},"items":[`)
	for i := range objects {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"object-%05d","namespace":"many","uid":"5d6c4c9e-8d0c-4a43-b3c5-2f9a7a%06d","resourceVersion":"%d","creationTimestamp":"2026-11-26T20:28:36Z",`+
			`"labels":{"app":"many","orrery.dev/location":"edge.0f6b2d7c","orrery.dev/space":"bench"},`+
			`"annotations":{"orrery.dev/log":"f2c1d0a4.120%03d","orrery.dev/source-kind":"ConfigMap","orrery.dev/source-name":"object-%05d","orrery.dev/source-namespace":"many","orrery.dev/source-uid":"0b1c7f0e-3b6e-4b43-9c1c-7a9d5e%06d"},`+
			`"managedFields":[{"manager":"orrery.edge.0f6b2d7c","operation":"Apply","apiVersion":"v1","time":"2026-11-26T20:28:36Z","fieldsType":"FieldsV1",`+
			`"fieldsV1":{"f:data":{"f:fill":{},"f:value":{}},"f:metadata":{"f:annotations":{"f:orrery.dev/log":{},"f:orrery.dev/source-kind":{},"f:orrery.dev/source-name":{},"f:orrery.dev/source-namespace":{},"f:orrery.dev/source-uid":{}},"f:labels":{"f:app":{},"f:orrery.dev/location":{},"f:orrery.dev/space":{}}}}}]}}`,
			i, i, 60000+i, i%1000, i, i)
	}
	b.WriteString("]}")
	return []byte(b.String())
}

// TestPages checks that a caller that reads more than one page gets each further page requested while
// the one before it is shown, and that a caller that reads one page requests no other. Revision,
// names and labels are those of the responses.
func TestPages(t *testing.T) {
	const last = 5
	began := make(chan string, last)
	a := recordedBy(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("continue")) // the first has none
		began <- r.URL.Query().Get("continue")
		more := ""
		if n < last {
			more = strconv.Itoa(n + 1)
		}
		_, _ = fmt.Fprintf(w, `{"metadata":{"resourceVersion":"9%d","continue":%q},"items":[{"metadata":{"name":"n%d","labels":{"l":"\u0041"}}}]}`, n, more, n)
	})
	read := func(upTo int, shown func(n int)) (names []string, revision string) {
		revision, err := a.Pages(t.Context(), Leases, "", "l=v", false, func(p *Page) (bool, error) {
			n := len(names)
			shown(n)
			if m := p.Items[0].Metadata; m.Labels["l"] == "A" {
				names = append(names, m.Name)
			}
			return n < upTo, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range a.taken() {
			if r.Header.Get("Accept-Encoding") != "identity" || r.URL.Query().Get("limit") != "500" || r.URL.Query().Get("labelSelector") != "l=v" {
				t.Errorf("unexpected request %s", r.URL)
			}
		}
		return names, revision
	}
	names, revision := read(last, func(n int) {
		switch n {
		case 0: // only the first page is requested
			if limit.Receive(t, began, "the request for the first page"); len(began) != 0 {
				t.Error("the second page is requested before the caller needs it")
			}
		case 1:
			limit.Receive(t, began, "the request for the second page")
			fallthrough
		default:
			if n < last {
				limit.Receive(t, began, "the request for the next page while this one is shown")
			}
		}
	})
	if want := []string{"n0", "n1", "n2", "n3", "n4", "n5"}; !slices.Equal(names, want) || revision != "95" {
		t.Errorf("read %v as of %s", names, revision)
	}
	if names, revision = read(0, func(int) {}); !slices.Equal(names, []string{"n0"}) || revision != "90" || len(began) != 1 {
		t.Errorf("read %v as of %s, %d pages were requested", names, revision, len(began))
	}
}

// TestNoList checks that a response that is not a list is an error. As an empty list, it would mean that all
// objects are deleted.
func TestNoList(t *testing.T) {
	for _, body := range []string{"", "<html>", `"x"`, "[]", "null", `{"items":{}}`, `{"items":"x"}`, `{"items":[{"metadata":{}}]`, `{"metadata":{"continue":"1"},"items":[}`,
		`{"metadata":"x","items":[]}`, `{"metadata":[{"continue":"x"}],"items":[]}`, `{"metadata":{"continue":7},"items":[]}`, `{"metadata":{"resourceVersion":{}},"items":[]}`,
		`{"items":[],"items":[{}]}`, `{"items":[],"Items":[{}]}`, `{"metadata":{"continue":"","continue":"x"},"items":[]}`, `{"metadata":{},"Metadata":{"continue":"x"},"items":[]}`,
		`{"items":` + strings.Repeat("[", 1<<20),
		`{}`, `{"metadata":{"resourceVersion":"7"}}`, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":500}`,
		`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"x","resourceVersion":"7"}}`,
	} {
		a := recordedBy(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		_, err := a.Pages(t.Context(), Leases, "", "", false, func(*Page) (bool, error) { t.Errorf("%q is shown", body); return false, nil })
		if !errors.Is(err, ErrAnswer) {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// TestEmptyList checks empty lists: a kube-apiserver sends null as the items, and other servers may omit them.
func TestEmptyList(t *testing.T) {
	for _, body := range []string{`{"metadata":{"resourceVersion":"7"},"items":null}`, `{"metadata":{"resourceVersion":"7"},"items":[]}`, `{"kind":"LeaseList","metadata":{"resourceVersion":"7"}}`, `{"Metadata":{"ResourceVersion":"7"},"Items":[]}`} {
		a := recordedBy(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		revision, err := a.Pages(t.Context(), Leases, "", "", false, func(p *Page) (bool, error) {
			if len(p.Items) != 0 {
				t.Errorf("%s: %d items: %+v", body, len(p.Items), p.Items)
			}
			return true, nil
		})
		if err != nil || revision != "7" {
			t.Errorf("%s: revision %q, %v", body, revision, err)
		}
	}
}

// TestFirstPageTooLarge checks that a first page that is requested again with fewer objects still counts as the first.
func TestFirstPageTooLarge(t *testing.T) {
	a := recordedBy(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("limit") == "500" {
			_, _ = w.Write(make([]byte, maxAnswer+1))
			return
		}
		_, _ = io.WriteString(w, `{"metadata":{"continue":"2"},"items":[]}`)
	})
	_, err := a.Pages(t.Context(), Leases, "", "", false, func(*Page) (bool, error) { return false, nil })
	var requested []string
	for _, r := range a.taken() {
		requested = append(requested, r.URL.Query().Get("limit")+"/"+r.URL.Query().Get("continue"))
	}
	if err != nil || !slices.Equal(requested, []string{"500/", "125/"}) {
		t.Errorf("requested pages %v, %v", requested, err)
	}
}

// TestNotAhead checks that no page is requested while a large page, or one of whole objects, is shown.
func TestNotAhead(t *testing.T) {
	for _, full := range []bool{false, true} {
		pad := ""
		if !full {
			pad = strings.Repeat(" ", aheadMost)
		}
		requested := make(chan struct{}, 10)
		a := recordedBy(t, func(w http.ResponseWriter, _ *http.Request) {
			requested <- struct{}{}
			_, _ = io.WriteString(w, `{"metadata":{"continue":"x"},"items":[]}`+pad)
		})
		shown := 0
		if _, err := a.Pages(t.Context(), Leases, "", "", full, func(*Page) (bool, error) {
			shown++
			limit.Receive(t, requested, "the request for this page")
			select {
			case <-requested:
				t.Errorf("full %t: another page is requested while page %d is shown", full, shown)
			case <-time.After(50 * time.Millisecond):
			}
			return shown < 3, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCalledOff checks that a canceled request is not counted as one without a response.
func TestCalledOff(t *testing.T) {
	a := recordedBy(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	var counted atomic.Int32
	a.count = func(string, int) { counted.Add(1) }
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for len(a.taken()) == 0 {
			<-time.After(time.Millisecond)
		}
		cancel()
	}()
	if _, err := a.Get(ctx, Leases, example); !errors.Is(err, context.Canceled) || counted.Load() != 0 {
		t.Errorf("got %v, and %d requests are counted, want context.Canceled and 0", err, counted.Load())
	}
}

// BenchmarkPage measures decoding a page of a list, without the connection.
func BenchmarkPage(b *testing.B) {
	text := page(listPage)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if p, err := decode[ownership.Observation](text); err != nil || len(p.Items) != listPage {
			b.Fatal(err, len(p.Items))
		}
	}
}
