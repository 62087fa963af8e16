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

// AvailableMemory is how many bytes of memory the process may have, by the files of the system's root:
// what its control groups allow, or else the machine has. 0: nobody knows, as where there are no
// such files.
func AvailableMemory(root fs.FS) int64 {
	least := machine(root)
	for _, file := range bounds(root) {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		// A group without a bound says "max".
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// machine is what the machine has.
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
			return n << 10 // it is in KiB
		}
	}
	return 0
}

// bounds are the files with the bounds of the process' control group and of those around it. In a
// container it is the outermost, and its files are where those of all groups are elsewhere.
func bounds(root fs.FS) []string {
	const groups = "sys/fs/cgroup"
	all := []string{groups + "/memory.max", groups + "/memory/memory.limit_in_bytes"} // of both versions
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

// spare is the part of the available memory that Go is to leave: for stacks of the kernel, and
// for what other libraries map.
const spare = 10

// LimitMemory has garbage collected more often when what the process takes comes near to the memory
// that is available; 0: nobody knows that. GOMEMLIMIT in the environment goes before it.
func LimitMemory(available int64) {
	if available > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(available - available/spare)
	}
}
