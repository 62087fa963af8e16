// Command clock makes an overlay for go build that gives orrery and orrery-agent a wall
// clock that a test can move: package time adds an offset that it reads from a file.
// Everything else, timers included, is as in the programs that ship, which have none of
// this.
//
//	go run ./test/support/clock DIR; go build -overlay DIR/overlay.json ./cmd/...
package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed follow.go.txt
var follow string

// now is how time.Now begins, and what it is to be.
const (
	now   = "\tsec, nsec, mono := runtimeNow()\n"
	moved = now + "\tsec += wallMoved.Load()\n"
	more  = `
var wallMoved atomic.Int64

// MoveWall moves the wall clock by a number of seconds from what it is.
func MoveWall(seconds int64) { wallMoved.Store(seconds) }
`
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: clock DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "clock:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find Go: %w", err)
	}
	file := filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	source, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(source)
	if n := strings.Count(text, now); n != 1 {
		return fmt.Errorf("%s reads the clock in %d places, want 1", file, n)
	}
	text = strings.Replace(text, now, moved, 1)
	text = strings.Replace(text, "import (\n", "import (\n\t\"sync/atomic\"\n", 1) + more
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	replace := map[string]string{file: filepath.Join(dir, "time.go")}
	contents := map[string]string{"time.go": text, "follow.go": follow}
	for _, program := range []string{"orrery", "orrery-agent"} {
		added, err := filepath.Abs(filepath.Join("cmd", program, "follow.go"))
		if err != nil {
			return err
		}
		replace[added] = filepath.Join(dir, "follow.go")
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	contents["overlay.json"] = string(overlay)
	for name, content := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
