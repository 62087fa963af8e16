package env

import (
	"slices"
	"strings"
	"testing"
)

// TestProgramFailures shows that the error of a program has its failures: readers of the error may not
// have the standard error.
func TestProgramFailures(t *testing.T) {
	var order []string
	err := Main("demo", func(t T) {
		t.Cleanup(func() {
			order = append(order, "cleaned")
			t.Errorf("stop it: %s", "it still ran")
		})
		t.Logf("only a note")
		t.Errorf("step: %s%s", strings.Repeat("x", 5000), "the end of its log")
		func() {
			defer func() { order = append(order, "ended") }()
			t.Fatalf("start: %d", 7)
		}()
		order = append(order, "went on")
	})
	if !slices.Equal(order, []string{"ended", "cleaned"}) {
		t.Errorf("after a fatal failure it did %q", order)
	}
	if err == nil {
		t.Fatal("the program did not fail")
	}
	for _, want := range []string{"demo failed: step: xxx", "the end of its log\n", "start: 7", "stop it: it still ran"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if n := len(err.Error()); n > 1500 || strings.Contains(err.Error(), "note") {
		t.Errorf("the error has %d bytes: %v", n, err)
	}

	err = Main("demo", func(t T) {
		for i := range 1000 {
			t.Errorf("failure %d", i)
		}
	})
	if err == nil || !strings.HasSuffix(err.Error(), "failure 4\nand 995 more") {
		t.Errorf("the error of 1000 failures is %v", err)
	}
	if err := Main("demo", func(T) {}); err != nil {
		t.Errorf("nothing failed: %v", err)
	}
}
