package hub

// stackOfWrite is what the handlers of a write need of the stack at least, in bytes.
const stackOfWrite = 10 << 10

// growStack has the stack of the goroutine grow once, while there is next to nothing on it.
// Otherwise it is copied each time that it has doubled, with dozens of frames on it, which
// was a tenth of the CPU of a create. It is not for requests that last: they would keep it.
//
//go:noinline
func growStack() {
	var room [stackOfWrite]byte
	touch(&room)
}

//go:noinline
func touch(room *[stackOfWrite]byte) { room[0] = 1 }
