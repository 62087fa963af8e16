package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
)

// logged is how much has been written to a hub's log.
type logged struct {
	revision int64
	bytes    float64
}

// logged reads it.
func (b *bench) logged() (l logged, err error) {
	if l.revision, err = b.revision(); err != nil {
		return l, err
	}
	l.bytes, err = b.metric("orrery_log_written_bytes_total")
	return l, err
}

// since is how many revisions and KB have been written since, for each of so many.
func (l logged) since(before logged, n float64) (revisions, kilobytes float64) {
	return float64(l.revision-before.revision) / n, (l.bytes - before.bytes) / 1e3 / n
}

// metric is a metric without labels of the hub.
func (b *bench) metric(name string) (float64, error) {
	whole, err := newClient(b.hub.PathConfig(""))
	if err != nil {
		return 0, err
	}
	defer whole.close()
	return metricOf(b.ctx, whole, name)
}

// metricOf is a metric without labels of the hub that a client asks.
func metricOf(ctx context.Context, c *client, name string) (float64, error) {
	text, err := c.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("the hub's metrics have no %s", name)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}
