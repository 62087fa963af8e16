package agent

import "orrery.dev/orrery/internal/protocol/wire"

// Awaits returns the reason why an agent cannot work: it has not joined its location, or its cluster
// does not respond; empty if it can work. known is false until both were tried. It may be called
// from any goroutine.
func Awaits(a *Agent) (why string, known bool) {
	select {
	case <-a.ready:
	default:
		return "", false
	}
	if a.keeper != nil && a.keeper.Current() == nil && !a.state.Now().Open { // with a token of an older version, the agent has no credential
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
