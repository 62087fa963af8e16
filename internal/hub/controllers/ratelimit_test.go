package controllers

import (
	"fmt"
	"testing"
	"time"
)

// TestPace shows that what changes seldom never waits, what changes without pause is done
// at most every paceLeast, or paceSteady in the long run, and what is expensive takes a bounded part of the time, until it would wait too long.
func TestPace(t *testing.T) {
	now := time.Unix(1e9, 0)
	p := newCostLimiter(func() time.Time { return now })
	for range 100 {
		if wait := p.wait("seldom"); wait > 0 {
			t.Fatalf("it waits %v", wait)
		}
		p.spent("seldom", time.Millisecond, true)
		now = now.Add(paceLeast)
	}
	for _, c := range []struct {
		name  string
		cost  time.Duration
		wrote bool
		most  int
	}{
		{"cheap", time.Millisecond, true, paceAtOnce + int(10*time.Second/paceLeast)},
		{"expensive", 50 * time.Millisecond, true, paceAtOnce + int(10*time.Second/(paceShare*50*time.Millisecond))},
		{"without a write", 20 * time.Millisecond, false, paceAtOnce + int(10*time.Second/(paceShare*20*time.Millisecond))},
	} {
		done, end := 0, now.Add(10*time.Second)
		for ; now.Before(end); now = now.Add(time.Millisecond) {
			if p.wait(c.name) <= 0 {
				done++
				p.spent(c.name, c.cost, c.wrote)
			}
		}
		if done > c.most || done < c.most/2 {
			t.Errorf("%s: done %d times, at most %d", c.name, done, c.most)
		}
	}
	written, end := 0, now.Add(time.Hour) // a heartbeat at each of a hundred locations
	for ; now.Before(end); now = now.Add(10 * time.Millisecond) {
		if p.wait("without end") <= 0 {
			written++
			p.spent("without end", time.Millisecond, true)
		}
	}
	if most := paceBurst + paceAtOnce + int(time.Hour/paceSteady); written > most || written < most/2 {
		t.Errorf("written %d times in an hour, at most %d", written, most)
	}
	p.spent("as long as the log stood still", 5*time.Minute, true)
	if wait := p.wait("as long as the log stood still"); wait > paceMost {
		t.Errorf("it waits %v", wait)
	}
	for i := range 10 * paceForgets {
		p.spent(fmt.Sprint(i), 0, true)
		now = now.Add(time.Second)
	}
	if len(p.due) > paceForgets {
		t.Errorf("%d things are remembered", len(p.due))
	}
}

// TestSeldom: writes without pause are limited to a burst and then to one per interval, idle keys
// are dropped, and keys do not affect each other.
func TestSeldom(t *testing.T) {
	now := time.Unix(1e9, 0)
	p := newWriteLimiter(func() time.Time { return now }, 10*time.Second, 4)
	begin, written := now, 0
	for ; now.Sub(begin) < 595*time.Second; now = now.Add(50 * time.Millisecond) {
		if p.wait("flips") <= 0 {
			written++
			p.wrote("flips")
		}
		if now.Equal(begin) && written != 1 || p.wait("other") > 0 {
			t.Fatal("the first, or another, waits")
		}
	}
	if written != 4+59 {
		t.Errorf("written %d times in nearly ten minutes", written)
	}
	if left := p.wait("flips"); left <= 0 || left > 10*time.Second {
		t.Errorf("it waits %s", left)
	}
	for i := range 10 * paceForgets {
		p.wrote(fmt.Sprint(i))
		now = now.Add(time.Second)
	}
	if len(p.due) > paceForgets {
		t.Errorf("%d things are remembered", len(p.due))
	}
}
