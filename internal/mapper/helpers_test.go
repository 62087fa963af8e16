package mapper

import (
	"log/slog"
	"time"

	"orrery.dev/orrery/internal/wire"
)

var quiet = slog.New(slog.DiscardHandler)

// now is when what needs a time happens in tests.
var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func del(k string, cause wire.Cause) wire.Frame {
	return wire.Frame{Del: &wire.Del{Key: k, Cause: cause}}
}
