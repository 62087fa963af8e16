package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// leastPage is how many keys a page has at least, and mostPages about how many pages there are
	// beyond the first.
	leastPage = 1000
	mostPages = 8
)

// pages calls fn with what is below a prefix, as it is kept, page by page in the order of keys. It ends
// with the first error.
//
// For each page etcd counts all keys that are behind it, so pages of one size take a time that grows
// with the square of their number: of 150,000 keys, a thousand at a time, five seconds. So there are few
// pages, of which each has a part of all. One that can't be had, as it may be larger than a message can
// be, is asked for again with the fewest keys.
func (l *Log) pages(ctx context.Context, prefix string, fn func([]*mvccpb.KeyValue) error, options ...clientv3.OpOption) error {
	start, end, size := prefix, clientv3.GetPrefixRangeEnd(prefix), int64(leastPage)
	for {
		of := append([]clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(size)}, options...)
		page, err := l.raw.Get(ctx, start, of...)
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
