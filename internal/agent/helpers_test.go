package agent

import (
	"log/slog"

	"orrery.dev/orrery/internal/protocol/wire"
)

var quiet = slog.New(slog.DiscardHandler)

func del(k string, cause wire.Cause) wire.Frame {
	return wire.Frame{Del: &wire.Del{Key: k, Cause: cause}}
}

func digest(s string) wire.Sum { return wire.SumOf([]byte(s)) }
