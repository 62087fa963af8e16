package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// narrow is a KV that fails for responses of more than most keys, and counts pages.
type narrow struct {
	clientv3.KV
	most, pages int
}

func (n *narrow) Get(ctx context.Context, k string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	r, err := n.KV.Get(ctx, k, opts...)
	if err == nil && len(r.Kvs) > n.most {
		return nil, errors.New("the answer is too large")
	}
	n.pages++
	return r, err
}

// TestPages shows that pages reads all keys below a prefix, once and in order, in few pages for any
// number of keys, and in smaller pages if larger ones fail; and that it stops at an error.
func TestPages(t *testing.T) {
	l := open(t, t.TempDir())
	const keys = 20 * leastPage
	var want []string
	var ops []Op
	for i := range keys {
		k := fmt.Sprintf("o/p/%06d", i)
		want, ops = append(want, Prefix+k), append(ops, Op{Key: k, Value: []byte("{}")})
	}
	ops = append(ops, Op{Key: "o/q", Value: []byte("{}")})
	if _, err := l.Write(t.Context(), ops); err != nil {
		t.Fatal(err)
	}
	raw := l.raw
	for most, pages := range map[int]int{keys: mostPages + 1, leastPage: 20} {
		through := &narrow{KV: raw, most: most}
		l.raw = through
		var got []string
		err := l.pages(t.Context(), Prefix+"o/p/", func(page []*mvccpb.KeyValue) error {
			for _, kv := range page {
				got = append(got, string(kv.Key))
			}
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("of at most %d: %d keys, want %d: %v", most, len(got), len(want), err)
		}
		if through.pages > pages {
			t.Errorf("of at most %d: %d pages, want %d", most, through.pages, pages)
		}
	}
	l.raw = &narrow{KV: raw, most: leastPage - 1}
	if err := l.pages(t.Context(), Prefix+"o/p/", func([]*mvccpb.KeyValue) error { return nil }); err == nil {
		t.Error("no page can be had, and nothing is wrong")
	}
	l.raw = raw
	enough := errors.New("enough")
	if err := l.pages(t.Context(), Prefix+"o/p/", func([]*mvccpb.KeyValue) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("an error does not end it: %v", err)
	}
}
