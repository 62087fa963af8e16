package seeds

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
)

// replay returns the command that replays a test with a seed.
func replay(test string, seed uint64, factor int) string {
	env := fmt.Sprintf("%s=%d", seedVar, seed)
	if factor > 1 {
		env += fmt.Sprintf(" %s=%d", soakVar, factor)
	}
	return fmt.Sprintf("replay: %s go test %s%s -run '%s'", env, buildFlags(), location(), pattern(test))
}

// pattern returns the regular expression that selects one test or subtest.
func pattern(test string) string {
	names := strings.Split(test, "/")
	for i, name := range names {
		names[i] = "^" + regexp.QuoteMeta(name) + "$"
	}
	return strings.Join(names, "/")
}

// location returns the package of the test, relative to the root of its module. The go command runs a
// test in the directory of its package.
var location = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	for root := dir; root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
			continue
		}
		if rel, err := filepath.Rel(root, dir); err == nil {
			return "./" + filepath.ToSlash(rel)
		}
	}
	return "."
})

// buildFlags returns the flags of this test binary on which its behaviour depends.
func buildFlags() (flags string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "-race" && setting.Value == "true":
			flags += "-race "
		case setting.Key == "-tags" && setting.Value != "":
			flags += "-tags " + setting.Value + " "
		}
	}
	return flags
}
