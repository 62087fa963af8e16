package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// leastPage is the minimum number of keys of a page that is not the last, and mostPages the
	// approximate number of pages after the first.
	leastPage = 1000
	mostPages = 8
)

// pages calls fn with the keys and stored values below a prefix, page by page in the order of keys. It
// stops at the first error.
//
// For each page etcd counts all keys behind it, so with pages of a fixed size the duration grows with
// the square of the number of keys: 150,000 keys in pages of a thousand take five seconds. So the size
// of a page depends on the number of keys. If a request fails, perhaps because the response exceeds
// the maximum size of a message, it is repeated with leastPage keys.
func (l *Log) pages(ctx context.Context, prefix string, fn func([]*mvccpb.KeyValue) error, options ...clientv3.OpOption) error {
	start, end, size := prefix, clientv3.GetPrefixRangeEnd(prefix), int64(leastPage)
	for {
		limits := append([]clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(size)}, options...)
		page, err := l.raw.Get(ctx, start, limits...)
		switch {
		case err != nil && size > leastPage && ctx.Err() == nil:
			size = leastPage
			continue
		case err != nil:
			return err
		}
		if err := fn(page.Kvs); err != nil {
			return err
		}
		if !page.More {
			return nil
		}
		if start == prefix {
			size = max(leastPage, page.Count/mostPages)
		}
		start = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}
