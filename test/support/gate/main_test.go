package main

import (
	"os"
	"strings"
	"testing"
)

func TestResults(t *testing.T) {
	const pass = `{"Action":"output","Package":"p","Test":"A","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`
	for _, test := range []struct{ name, in, out, err string }{
		{"pass", pass, "ok  \tp\t0.1s\n", ""},
		{
			"fail", pass + `{"Action":"output","Package":"q","Test":"B","Output":"why\n"}
{"Action":"fail","Package":"q","Test":"B"}
{"Action":"output","Package":"q","Output":"FAIL\tq\t0.1s\n"}
{"Action":"fail","Package":"q"}
`, "ok  \tp\t0.1s\nwhy\nFAIL\tq\t0.1s\n\nOf q:\nq B\nwhy\n\nIn short:\nq B\nwhy\n", "tests failed",
		},
		{
			"dies", pass + `{"Action":"output","Package":"q","Test":"B","Output":"last words\n"}
{"Action":"output","Package":"q","Output":"FAIL\tq\t0.1s\n"}
{"Action":"fail","Package":"q"}
`, "ok  \tp\t0.1s\nFAIL\tq\t0.1s\nlast words\n\nOf q:\nq\nlast words\n\nIn short:\nq\nlast words\n", "tests failed",
		},
		{"skip", pass + `{"Action":"skip","Package":"q","Test":"B"}`, "ok  \tp\t0.1s\n", "required tests were skipped: q B"},
		{
			"does not build", `{"ImportPath":"q","Action":"build-output","Output":"q.go:1: syntax error\n"}
{"ImportPath":"q","Action":"build-fail"}
{"Action":"fail","Package":"q","FailedBuild":"q"}
`, "q.go:1: syntax error\n\nOf q:\nq\nq.go:1: syntax error\n\nIn short:\nq\nq.go:1: syntax error\n", "tests failed",
		},
		{
			"races", `{"Action":"output","Package":"q","Test":"B","Output":"E1127 noise\n==================\nWARNING: DATA RACE\nWrite at 0x00c0 by goroutine 7:\n  net/http.(*body).Read()\n"}
{"Action":"output","Package":"q","Test":"B","Output":"    testing.go:1712: race detected\n"}
{"Action":"fail","Package":"q","Test":"B"}
{"Action":"fail","Package":"q"}
`, "E1127 noise\n==================\nWARNING: DATA RACE\nWrite at 0x00c0 by goroutine 7:\n  net/http.(*body).Read()\n    testing.go:1712: race detected\n" +
				"\nOf q:\nq B\nWARNING: DATA RACE\nWrite at 0x00c0 by goroutine 7:\n  net/http.(*body).Read()\n    testing.go:1712: race detected\n" +
				"\nIn short:\nq B\nWARNING: DATA RACE\nWrite at 0x00c0 by goroutine 7:\n  net/http.(*body).Read()\n    testing.go:1712: race detected\n", "tests failed",
		},
		{"no test files", pass + `{"Action":"skip","Package":"q"}`, "ok  \tp\t0.1s\n", ""},
		{"nothing", "", "", "no test ran"},
		{"the go command fails", "go: no module\n", "go: no module\n", "no test ran"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			err := newResults().run(strings.NewReader(test.in), &out)
			if out.String() != test.out {
				t.Errorf("printed %q, want %q", out.String(), test.out)
			}
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != test.err {
				t.Errorf("error is %q, want %q", got, test.err)
			}
		})
	}
}

// TestInShort reads what go test said of packages that fail in all ways: what failed
// and why comes last, without the logs of processes.
func TestInShort(t *testing.T) {
	failures, err := os.Open("testdata/failures.json")
	if err != nil {
		t.Fatal(err)
	}
	defer failures.Close()
	want, err := os.ReadFile("testdata/failures.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := newResults().run(failures, &out); err == nil || err.Error() != "tests failed" {
		t.Errorf("error is %v", err)
	}
	before, short, _ := strings.Cut(out.String(), "\nIn short:\n")
	if short != string(want) {
		t.Errorf("in short:\n%s\nwant:\n%s", short, want)
	}
	if !strings.Contains(before, "--- end of hub's log:") {
		t.Error("the logs of processes are not shown")
	}
}
