package env

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Socket is a TCP socket of a process.
type Socket struct {
	// Port is the local port. Listens is true for a listening socket.
	Port    int
	Listens bool
}

// listening is the state of a listening socket in /proc/net/tcp.
const listening = "0A"

// Sockets returns the current TCP sockets of the process.
func (p *Process) Sockets() (all []Socket) {
	p.t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
	fds, err := filepath.Glob(filepath.Join(dir, "fd", "*"))
	if err != nil {
		p.t.Fatalf("sockets of %s: %v", p.name, err)
	}
	mine := map[string]bool{}
	for _, fd := range fds {
		if name, err := os.Readlink(fd); err == nil { // else it was closed meanwhile
			mine[name] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(filepath.Join(dir, "net", table))
		if err != nil {
			p.t.Fatalf("sockets of %s: %v", p.name, err)
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			fields := strings.Fields(lines.Text())
			const local, state, inode = 1, 3, 9
			if len(fields) <= inode || !mine[fmt.Sprintf("socket:[%s]", fields[inode])] {
				continue
			}
			_, hex, _ := strings.Cut(fields[local], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			if err != nil {
				p.t.Fatalf("sockets of %s: %q: %v", p.name, lines.Text(), err)
			}
			all = append(all, Socket{int(port), fields[state] == listening})
		}
		_ = f.Close() // it was read
	}
	return all
}
