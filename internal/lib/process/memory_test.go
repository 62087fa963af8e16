package process

import (
	"runtime/debug"
	"testing"
	"testing/fstest"
)

// The available memory is the minimum of the machine's memory and the limits of all control groups.
// It is unknown if no file has it.
func TestAvailable(t *testing.T) {
	const (
		machine = "proc/meminfo"
		self    = "proc/self/cgroup"
		meminfo = "MemFree:  1 kB\nMemTotal:       4096 kB\n"
	)
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nothing":         {nil, 0},
		"a machine":       {map[string]string{machine: meminfo}, 4 << 20},
		"a container":     {map[string]string{machine: meminfo, "sys/fs/cgroup/memory.max": "1048576\n"}, 1 << 20},
		"an older one":    {map[string]string{machine: meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": "1048576\n"}, 1 << 20},
		"without a bound": {map[string]string{machine: meminfo, "sys/fs/cgroup/memory.max": "max\n"}, 4 << 20},
		"more than it":    {map[string]string{machine: meminfo, "sys/fs/cgroup/memory.max": "9223372036854771712\n"}, 4 << 20},
		"a service": {map[string]string{
			machine: meminfo, self: "0::/system.slice/orrery.service\n",
			"sys/fs/cgroup/system.slice/orrery.service/memory.max": "max\n", "sys/fs/cgroup/system.slice/memory.max": "2097152\n",
		}, 2 << 20},
		"only a bound": {map[string]string{"sys/fs/cgroup/memory.max": "1048576\n"}, 1 << 20},
		"not readable": {map[string]string{machine: "MemTotal: many\nMemTotal:\n", self: "1:name=x:/y\n", "sys/fs/cgroup/memory.max": "-1"}, 0},
	} {
		root := fstest.MapFS{}
		for file, text := range c.files {
			root[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := AvailableMemory(root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// The limit leaves a part of the memory free, and GOMEMLIMIT takes precedence.
func TestLimit(t *testing.T) {
	const asItWas = -1 // reads the limit without changing it
	before := debug.SetMemoryLimit(asItWas)
	defer debug.SetMemoryLimit(before)
	LimitMemory(0)
	if got := debug.SetMemoryLimit(asItWas); got != before {
		t.Errorf("not known: the limit is %d, was %d", got, before)
	}
	t.Setenv("GOMEMLIMIT", "1GiB")
	LimitMemory(100 << 30)
	if got := debug.SetMemoryLimit(asItWas); got != before {
		t.Errorf("with GOMEMLIMIT: the limit is %d, was %d", got, before)
	}
	t.Setenv("GOMEMLIMIT", "")
	LimitMemory(100 << 30)
	if got := debug.SetMemoryLimit(asItWas); got != 90<<30 {
		t.Errorf("the limit is %d", got)
	}
}
