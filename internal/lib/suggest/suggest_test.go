package suggest

import (
	"slices"
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	for _, c := range []struct{ name, candidates, want string }{
		{"deployment", "deployments pods", "deployments"},
		{"deploymants", "deployments pods", "deployments"},
		{"deployments", "deployments", ""}, // not a misspelt name
		{"berlni", "berlin bern", "berlin"},
		{"barlin", "merlin berlin", "berlin"},
		{"cat", "bat rat", "bat"},
		{"cat", "rat bat", "bat"},
		{"cat", "dog", ""},
		{"cat", "carts", ""}, // two letters of three
		{"ab", "ac", ""},     // too short
		{"", "a", ""},
		{"web", "", ""},
		{strings.Repeat("a", maxLength+1), strings.Repeat("a", maxLength), ""},
	} {
		if got := Nearest(c.name, slices.Values(strings.Fields(c.candidates))); got != c.want {
			t.Errorf("Nearest(%q, %q) = %q, want %q", c.name, c.candidates, got, c.want)
		}
	}
}
