package env

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/test/support/seeds"
)

// startEcho answers every line with itself.
func startEcho(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // until the client ends
			}()
		}
	}()
	return l.Addr().String()
}

type line struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, l *Link) *line {
	t.Helper()
	c, err := net.Dial("tcp", l.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &line{t: t, conn: c, in: bufio.NewReader(c)}
}

// say sends a line and waits for its echo.
func (c *line) say(text string, wait time.Duration) error {
	if _, err := fmt.Fprintln(c.conn, text); err != nil {
		return err
	}
	return c.hear(text, wait)
}

func (c *line) hear(want string, wait time.Duration) error {
	if err := c.conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	got, err := c.in.ReadString('\n')
	if err == nil && strings.TrimSpace(got) != want {
		return fmt.Errorf("heard %q, want %q", got, want)
	}
	return err
}

const (
	timeout = Soon
	silent  = 100 * time.Millisecond
)

func timedOut(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func TestLinkHoldsEachDirection(t *testing.T) {
	l := StartLink(t, startEcho(t))
	c := dial(t, l)
	if err := c.say("hello", timeout); err != nil {
		t.Fatal(err)
	}
	if up, down := l.Bytes(); up != 6 || down != 6 {
		t.Errorf("counted %d up and %d down", up, down)
	}
	for name, cut := range seeds.Ordered(map[string]func(){"up": l.CutUp, "down": l.CutDown}) {
		cut()
		if err := c.say(name, silent); !timedOut(err) {
			t.Errorf("cut %s: %v", name, err)
		}
		Eventually(t, timeout, func() error { // bytes on their way up may not have reached the link
			upBytes, downBytes := l.Bytes()
			if name == "up" && upBytes > downBytes || name == "down" && upBytes == downBytes {
				return fmt.Errorf("cut %s: %d bytes up, %d down", name, upBytes, downBytes)
			}
			return nil
		})
		l.Heal()
		if err := c.hear(name, timeout); err != nil {
			t.Errorf("healed after %s: %v", name, err)
		}
	}
}

func TestLinkEndsConnections(t *testing.T) {
	l := StartLink(t, startEcho(t))
	c := dial(t, l)
	if err := c.say("hello", timeout); err != nil {
		t.Fatal(err)
	}
	l.Cut()
	if err := c.say("cut", timeout); err == nil || timedOut(err) {
		t.Errorf("a cut connection: %v", err)
	}
	if err := dial(t, l).say("cut", timeout); err == nil || timedOut(err) {
		t.Errorf("a new connection over a cut link: %v", err)
	}
	l.Heal()
	c = dial(t, l)
	if err := c.say("again", timeout); err != nil {
		t.Fatal(err)
	}
	l.DropMidFrame(3)
	if err := c.say("dropped", timeout); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a connection that is dropped: %v", err)
	}
	if _, down := l.Bytes(); down != 6+6+3 {
		t.Errorf("%d bytes came down", down)
	}
}

func TestLinkForgets(t *testing.T) {
	l := StartLink(t, startEcho(t))
	old := dial(t, l)
	if err := old.say("hello", timeout); err != nil {
		t.Fatal(err)
	}
	l.Forget()
	if err := old.say("lost", silent); !timedOut(err) {
		t.Errorf("a forgotten connection: %v", err)
	}
	if err := dial(t, l).say("new", timeout); err != nil {
		t.Errorf("a new connection: %v", err)
	}
}

func TestLinkIsRedirected(t *testing.T) {
	l := StartLink(t, "https://127.0.0.1:1")
	if err := dial(t, l).say("nobody", timeout); err == nil {
		t.Error("nobody answers")
	}
	l.Redirect(startEcho(t))
	if err := dial(t, l).say("hello", timeout); err != nil {
		t.Error(err)
	}
}

func TestLinkIsSlow(t *testing.T) {
	l := StartLink(t, startEcho(t))
	c := dial(t, l)
	l.Slow(silent, 0)
	start := time.Now()
	if err := c.say("hello", timeout); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 2*silent {
		t.Errorf("there and back took %s", took)
	}
}
