package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	protobufBody = "application/vnd.kubernetes.protobuf"
	tableBody    = jsonBody + ";as=Table;v=v1;g=meta.k8s.io"
)

// listMany lists many ConfigMaps of 2 KB at once, in the space and in the stock
// kube-apiserver as spaceAPI has them, in turns, with one client and no limit. Values are
// medians of the ratios of the times until the last byte is there, and the ratio of
// the CPU that the servers took for all of them.
func (b *bench) listMany() error {
	if b.sides[0] == nil {
		sides, err := b.apiSides()
		if err != nil {
			return err
		}
		b.sides = sides
	}
	for i := range b.sides {
		if err := b.sides[i].growTo(b.ctx, b.size.listed); err != nil {
			return fmt.Errorf("%s: %w", b.sides[i].name, err)
		}
	}
	for id, accept := range map[string]string{"json": jsonBody, "table": tableBody, "protobuf": protobufBody} {
		var ratios, own []float64
		var cpu [2]time.Duration
		for round := range b.size.lists {
			var took [2]float64
			for i := range b.sides {
				side := (i + round) % len(b.sides)
				before, start := b.sides[side].process.Usage().CPU, time.Now()
				if err := b.sides[side].list(b.ctx, accept); err != nil {
					return fmt.Errorf("%s: %w", b.sides[side].name, err)
				}
				took[side] = time.Since(start).Seconds()
				cpu[side] += b.sides[side].process.Usage().CPU - before
			}
			ratios, own = append(ratios, took[0]/took[1]), append(own, took[0])
		}
		lists := time.Duration(b.size.lists)
		b.report.add("list."+id, result{value: median(ratios), samples: ratios,
			comment: fmt.Sprintf("%d objects in %.3f s", b.sides[0].objects, median(own))})
		b.report.set("list."+id+".cpu", cpu[0].Seconds()/max(cpu[1], time.Millisecond).Seconds(),
			"%s for a list; stock %s", (cpu[0] / lists).Round(time.Millisecond), (cpu[1] / lists).Round(time.Millisecond))
	}
	return nil
}

// growTo has the side hold at least n objects in namespace default.
func (s *apiSide) growTo(ctx context.Context, n int) error {
	more := max(0, n-s.objects)
	err := share(ctx, s.clients, more, func(ctx context.Context, c *client, i int) error {
		return c.create(ctx, configMaps("default"), configMap("default", "list-"+nameOf(i), 2<<10, "first"))
	})
	s.objects += more
	return err
}

// list reads all ConfigMaps.
func (s *apiSide) list(ctx context.Context, accept string) error {
	c := s.clients[0]
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+configMaps("default"), http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Accept-Encoding", "identity") // what is compared is the making of lists
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(accept, got) {
		return fmt.Errorf("list: %s of %s", resp.Status, got)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
