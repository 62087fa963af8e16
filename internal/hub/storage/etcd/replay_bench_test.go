package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// BenchmarkReplay loads a log of a thousand objects, with histories of different lengths.
func BenchmarkReplay(b *testing.B) {
	for _, revisions := range []int{1000, 10_000, 40_000} {
		b.Run(fmt.Sprint(revisions), func(b *testing.B) {
			l, err := Open(b.Context(), Config{DataDir: b.TempDir(), UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			for i := range revisions {
				if _, err := l.Write(b.Context(), []Op{{Key: objectKey(i % 1000), Value: fmt.Appendf(nil, `{"metadata":{},"n":%d,"data":"%s"}`, i, strings.Repeat("x", 2000))}}); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				to := table.New(table.Config{WindowSteps: revisions, WindowBytes: 1 << 30})
				ctx, cancel := context.WithCancel(b.Context())
				_ = l.Tail(ctx, to, Hooks{Lost: func(bool) {}, Loaded: cancel, Probed: func(error) {}})
				if to.Rev() < int64(revisions) {
					b.Fatalf("the table is at %d", to.Rev())
				}
			}
		})
	}
}
