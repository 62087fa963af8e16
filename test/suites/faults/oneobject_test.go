package faults

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// TestOneObjectFails has the API server of a location answer each change of one object in ways in which
// it answers all requests when it can't serve any: the report of that object has the answer, the agent
// does not halt for it, and all others are applied.
func TestOneObjectFails(t *testing.T) {
	t.Parallel()
	e := edgeOf(t, world.New(t, "--heartbeat", heartbeat.String()), nil)
	front := startFront(t, e.Cluster)
	e.Agent.Kill()
	e.Agent.Start("--kubeconfig", front.kubeconfig)
	for name, answer := range map[string]http.HandlerFunc{
		"conflict":    refuse(http.StatusConflict, "Conflict", "the webhook is busy", 0),
		"timeout":     refuse(http.StatusGatewayTimeout, "Timeout", "the webhook took too long", 0),
		"unavailable": refuse(http.StatusServiceUnavailable, "ServiceUnavailable", "the webhook is away", 0),
		"reset":       func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		why := map[string]string{"conflict": "is busy", "timeout": "too long", "unavailable": "is away", "reset": "INTERNAL_ERROR"}[name]
		front.fail(answer, func(r *http.Request) bool {
			return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/"+name)
		})
		halts := halted(e.Agent.Stderr())
		e.put(name, "1")
		e.put("good-"+name, "1")
		e.waitFor("good-"+name, "1")
		env.Eventually(t, soon, func() error {
			out, err := env.Command{Binary: "orrery", Kubeconfig: e.Root, Args: []string{"status", "--space", spaceName, "configmap/" + name, "-o", "json"}}.Try(t)
			if err != nil {
				return err
			}
			if !strings.Contains(out, why) || strings.Contains(out, `"state": "Applied"`) {
				return errors.New(out)
			}
			return nil
		})
		for n := range 3 {
			e.put("good-"+name, fmt.Sprint("edit-", n))
			e.waitFor("good-"+name, fmt.Sprint("edit-", n))
		}
		if now := halted(e.Agent.Stderr()); now > halts {
			t.Errorf("%s: the agent halted %d times for one object", name, now-halts)
		}
		front.heal()
		e.waitFor(name, "1")
	}
}

// halted counts how often the log of an agent reports that its cluster does not answer.
func halted(log string) (times int) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "the target's health has changed") && !strings.Contains(line, `broken=""`) {
			times++
		}
	}
	return times
}
