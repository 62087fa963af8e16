package env

import (
	"math"
	"syscall"
	"unsafe"
)

// Unlimited is a file size that no file reaches.
const Unlimited = math.MaxInt64

// LimitFiles makes writes of the running process fail that would make a file
// longer than a number of bytes, as on a full disk; Unlimited ends it.
func (p *Process) LimitFiles(bytes int64) {
	p.t.Helper()
	if !p.Running() {
		p.t.Fatalf("limit the files of %s: it is not running", p.name)
	}
	p.isAltered = true
	// The hard limit stays, so that the soft one can be raised again.
	limit := syscall.Rlimit{Cur: uint64(bytes), Max: math.MaxUint64}
	_, _, errno := syscall.Syscall6(syscall.SYS_PRLIMIT64, uintptr(p.cmd.Process.Pid), syscall.RLIMIT_FSIZE,
		uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	if errno != 0 {
		p.t.Fatalf("limit the files of %s: %v", p.name, errno)
	}
}
