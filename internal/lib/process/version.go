package process

import "runtime/debug"

// stamped is set by the linker, as make build does: -ldflags '-X orrery.dev/orrery/internal/lib/process.stamped=v1.2.3'.
var stamped string //nolint:gochecknoglobals // the linker sets nothing else

// unknown is the version of a binary without version information, such as one of `go test`.
const unknown = "devel"

// Version is the version: a tag as v1.2.3, or what Go makes of a commit, which ends with
// +dirty if what was built is not what was committed; "devel" if nothing is known.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionOf(stamped, info)
}

func versionOf(stamped string, info *debug.BuildInfo) string {
	if stamped != "" {
		return stamped
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return unknown
}
