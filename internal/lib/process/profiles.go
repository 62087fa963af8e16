package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// CPUProfile is the name of the CPU profile, which runs for the requested time.
const CPUProfile = "profile"

const (
	// defaultSeconds and maxSeconds are the durations of CPUProfile.
	defaultSeconds = 30
	maxSeconds     = 120
)

// ProfileNames returns the names of the profiles.
func ProfileNames() []string {
	return []string{"allocs", "goroutine", "heap", CPUProfile, "threadcreate"}
}

// taking is locked while a profile is taken. A process takes one profile at a time, so that
// frequent requests do not slow it down.
var taking sync.Mutex //nolint:gochecknoglobals // what it guards is one of the process

// ProfileHandler serves the profiles, with the name as the path. Parameters are those of
// net/http/pprof: seconds for CPU, debug for stacks as text, and gc to collect garbage before a
// heap profile. It writes to a client when the profile is complete, so that a slow client blocks no
// other.
func ProfileHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path
		switch {
		case r.Method != http.MethodGet:
			http.Error(w, "profiles are read by GET", http.StatusMethodNotAllowed)
			return
		case name == "":
			_, _ = fmt.Fprintln(w, strings.Join(ProfileNames(), "\n")) // errors of the connection are ignored
			return
		case !slices.Contains(ProfileNames(), name):
			http.Error(w, "no profile "+strconv.Quote(name)+": want one of "+strings.Join(ProfileNames(), ", "), http.StatusNotFound)
			return
		}
		seconds, err := number(r, "seconds", defaultSeconds, maxSeconds)
		debug, wrong := number(r, "debug", 0, 2)
		collect, unclear := number(r, "gc", 0, 1)
		if err == nil {
			err = errors.Join(wrong, unclear)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		profile, err := take(r.Context(), question{name: name, seconds: seconds, debug: debug, collect: collect > 0})
		if err != nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusTooManyRequests)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Type", "application/octet-stream")
		if debug > 0 && name != CPUProfile {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		}
		_, _ = w.Write(profile)
	})
}

// question is a request for a profile.
type question struct {
	name           string
	seconds, debug int
	collect        bool
}

// take takes a profile. It fails if another one is being taken.
func take(ctx context.Context, q question) ([]byte, error) {
	if !taking.TryLock() {
		return nil, fmt.Errorf("another profile is being taken, please try again later")
	}
	defer taking.Unlock()
	var out bytes.Buffer
	if q.name != CPUProfile {
		if q.collect && q.name == "heap" {
			runtime.GC()
		}
		err := pprof.Lookup(q.name).WriteTo(&out, q.debug)
		return out.Bytes(), err
	}
	if err := pprof.StartCPUProfile(&out); err != nil {
		return nil, err
	}
	timer := time.NewTimer(time.Duration(q.seconds) * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	pprof.StopCPUProfile()
	return out.Bytes(), nil
}

// number returns a parameter between 0 and most.
func number(r *http.Request, name string, missing, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%s=%s: want a number between 0 and %d", name, strconv.Quote(text), most)
	}
	return n, nil
}
