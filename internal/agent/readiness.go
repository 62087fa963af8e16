package agent

import "orrery.dev/orrery/internal/protocol/wire"

// Awaits returns what an agent waits for before it can work: it has not joined its location, or its
// cluster does not answer. Empty: nothing. known is false until both were tried. It may be called from
// any goroutine.
func Awaits(a *Agent) (why string, known bool) {
	select {
	case <-a.ready:
	default:
		return "", false
	}
	if a.keeper != nil && a.keeper.Current() == nil && !a.state.Now().Open { // a token that lasts needs no credential
		why = "it has not joined the location yet"
		if err := a.state.Now().Err; err != nil {
			why += ": " + err.Error()
		}
		return why, true
	}
	switch c := a.gate.Cluster(); c.State {
	case wire.ClusterAvailable:
		return "", a.gate.Reached()
	case wire.ClusterUnavailable:
		return "the cluster does not answer: " + c.Message, true
	}
	return "", false
}
