package demo

import "strings"

// introduce says what there is.
func (w *world) introduce() {
	var real, simulated []string
	for _, l := range w.locations {
		if l.simulated {
			simulated = append(simulated, l.name)
		} else {
			real = append(real, l.name+" ("+l.api.config.Host+")")
		}
	}
	w.say("%s", w.in(bold, "Orrery demo: a hub, locations with their agents and an application, in one process."))
	if len(real) > 0 {
		w.say("Real clusters: %s.", strings.Join(real, ", "))
	}
	if len(simulated) > 0 {
		w.say("Simulated clusters: %s. Each is a space of a second hub, in which a stand-in\nbrings Deployments to ready. No container runs.", strings.Join(simulated, ", "))
	}
	w.say(`
After every step both sides are listed and compared. What must hold:
  1. every object assigned to a location is there, as its source says;
  2. every copy names its source;
  3. status is back at the source where the policy asks for it;
  4. nothing else that Orrery made is anywhere.`)
	w.say("\nThe commands that are shown work in another terminal after\n\n  export KUBECONFIG=%s", w.kubeconfigFile())
}

// invite says what a user could try.
func (w *world) invite() {
	last := w.locations[len(w.locations)-1].name
	first := w.locations[0].name
	w.say(`
Everything keeps running until Ctrl-C. In another terminal:

  export KUBECONFIG=%s

  kubectl get deployments,campaigns                  # the space %s
  kubectl --context %s get deployments            # a cluster
  %s status                                      # what is where
  %s why deployment/web --location %s

  kubectl scale deployment web --replicas 7          # an edit, for all clusters
  kubectl --context %s delete deployment web      # tampering: it comes back
  kubectl --context %s label location %s %s=test --overwrite
  %s location list`,
		w.kubeconfigFile(), shopSpace, first, w.config.Program, w.config.Program, last, first, rootSpace, last, stageLabel, w.config.Program)
	w.printf("\n")
}
