package observe

import "log/slog"

var quiet = slog.New(slog.DiscardHandler)
