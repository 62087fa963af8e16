package ports

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
)

// TestReserve checks that reserved addresses are distinct and free.
func TestReserve(t *testing.T) {
	all := map[string]bool{}
	for range 100 {
		one := Reserve(t)
		if all[one] {
			t.Errorf("%s is reserved twice", one)
		}
		all[one] = true
		l, err := net.Listen("tcp", one)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// failed is a test that can fail and end.
type failed struct {
	message  string
	cleanups []func()
}

func (f *failed) Helper() {}
func (f *failed) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
func (f *failed) Cleanup(do func()) { f.cleanups = append(f.cleanups, do) }

// TestHeld checks that a number is held until its test ends, and that one in use is left out.
func TestHeld(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // which other processes do not use
	number := func(f *failed, probe func(int) error) (n int) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			n = Number(f, "number", 7, 9, probe)
		}()
		<-done
		return n
	}
	var one, two failed
	if a, b := number(&one, nil), number(&two, nil); a+b != 7+8 {
		t.Errorf("%d and %d are reserved", a, b)
	}
	var three failed
	if n := number(&three, nil); n != 0 || !strings.Contains(three.message, "no free number in 1000 random attempts from 7 to 8") {
		t.Errorf("a third is reserved: %d: %q", n, three.message)
	}
	for _, end := range append(one.cleanups, two.cleanups...) {
		end()
	}
	t.Cleanup(func() {
		for _, end := range three.cleanups {
			end()
		}
	})
	if n := number(&three, func(n int) error {
		if n == 7 {
			return errors.New("in use")
		}
		return nil
	}); n != 8 {
		t.Errorf("%d is reserved, though only 8 is free", n)
	}
}
