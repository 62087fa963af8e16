package demo

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// introduce describes the parts of the demo.
func (s *story) introduce() {
	var given, simulated []string
	for _, l := range s.world.locations {
		if l.simulated {
			simulated = append(simulated, l.name)
		} else {
			given = append(given, l.name+" ("+l.api.config.Host+")")
		}
	}
	s.say("%s", s.in(bold, "Orrery demo: a hub, locations with their agents and an application, in one process."))
	if len(given) > 0 {
		s.say("Real clusters: %s.", strings.Join(given, ", "))
	}
	if len(simulated) > 0 {
		s.say("Simulated clusters: %s. Each is a space of a second hub, in which a stand-in\nmakes Deployments ready. No container runs.", strings.Join(simulated, ", "))
	}
	s.say(`
After every step both sides are listed and compared. What must hold:
  1. every object assigned to a location is there, as its source says;
  2. every copy names its source;
  3. status is back at the source where the policy asks for it;
  4. nothing else that Orrery made is anywhere.`)
	s.say("\nThe commands that are shown work in another terminal after\n\n  export KUBECONFIG=%s", s.world.kubeconfigFile())
}

// invite suggests commands to the user.
func (s *story) invite() {
	first, last := s.world.locations[0].name, s.world.locations[len(s.world.locations)-1].name
	s.say("\nEverything keeps running until Ctrl-C. In another terminal:\n\n  export KUBECONFIG=%s\n", s.world.kubeconfigFile())
	table := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
	for _, hint := range [][2]string{
		{"kubectl get deployments,campaigns", "the space " + shopSpace},
		{"kubectl --context " + first + " get deployments", "a cluster"},
		{s.world.config.Program + " location list", "the clusters there are"},
		{s.world.config.Program + " status", "what is where"},
		{s.world.config.Program + " why deployment/web --location " + last, "and why"},
		{"kubectl scale deployment web --replicas 7", "an edit, for all clusters"},
		{"kubectl --context " + first + " delete deployment web", "tampering: it comes back"},
		{"kubectl --context " + rootSpace + " label location " + last + " " + stageLabel + "=test --overwrite", last + " leaves"},
	} {
		_, _ = fmt.Fprintf(table, "  %s\t# %s\n", hint[0], hint[1])
	}
	_ = table.Flush() // errors of output are ignored, as everywhere in the demo
}
