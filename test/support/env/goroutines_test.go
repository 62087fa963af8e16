package env

import "testing"

func TestSummaryOfGoroutines(t *testing.T) {
	const stacks = `SIGQUIT: quit
PC=0x1 m=0 sigcode=0

goroutine 1 gp=0xc0 m=nil [chan receive, 2 minutes]:
main.(*hub).wait(0xc000, {0x1, 0x2})
	/x/main.go:1 +0x1
main.main()
	/x/main.go:2 +0x1

goroutine 3 [finalizer wait]:
runtime.gopark(0x1, 0x2)
	/x/proc.go:1 +0x1
created by runtime.createfing in goroutine 1
	/x/mfinal.go:1 +0x1

goroutine 7 [select]:
runtime.gopark(0x1, 0x2)
	/x/proc.go:1 +0x1
net/http.(*conn).serve(0x1)
	/x/server.go:1 +0x1
created by net/http.(*Server).Serve in goroutine 1
	/x/server.go:2 +0x1

goroutine 9 [select]:
net/http.(*conn).serve(0x2)
	/x/server.go:1 +0x1
created by net/http.(*Server).Serve in goroutine 3
	/x/server.go:2 +0x1

rax    0x0
`
	const want = `   1 chan receive in main.(*hub).wait, main.main
   2 select in net/http.(*conn).serve, created by net/http.(*Server).Serve`
	if got := summary(stacks); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
