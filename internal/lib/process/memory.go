package process

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// AvailableMemory returns the number of bytes of memory that the process may use: the limit of its
// control groups, or the memory of the machine. root is the root file system. It returns 0 if the
// limit is unknown, as on systems without these files.
func AvailableMemory(root fs.FS) int64 {
	least := machine(root)
	for _, file := range bounds(root) {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		// A group without a limit contains "max".
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// machine returns the memory of the machine.
func machine(root fs.FS) int64 {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "MemTotal:" {
			continue
		}
		if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil && n < math.MaxInt64>>10 {
			return n << 10 // the value is in KiB
		}
	}
	return 0
}

// bounds returns the files with the limits of the process' control group and its parents. In a
// container its group is at the root, where other systems have the files of all groups.
func bounds(root fs.FS) []string {
	const groups = "sys/fs/cgroup"
	all := []string{groups + "/memory.max", groups + "/memory/memory.limit_in_bytes"} // cgroup versions 2 and 1
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return all
	}
	for line := range strings.Lines(string(text)) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		if !ok {
			continue
		}
		for ; group != "" && group != "."; group = path.Dir(group) {
			all = append(all, path.Join(groups, group, "memory.max"))
		}
	}
	return all
}

// One part in spare of the available memory is not for Go: kernel stacks and memory that other
// libraries map need it.
const spare = 10

// LimitMemory makes the garbage collector run more often when the process comes near to the
// available memory; 0 means unknown. GOMEMLIMIT in the environment takes precedence.
func LimitMemory(available int64) {
	if available > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(available - available/spare)
	}
}
