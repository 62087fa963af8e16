package cli

import (
	"testing"

	"orrery.dev/orrery/internal/protocol/wire"
)

func TestSplitServer(t *testing.T) {
	for _, c := range []struct{ server, hub, space string }{
		{"https://h:8443/spaces/shop", "https://h:8443", "shop"},
		{"https://h:8443/spaces/shop/", "https://h:8443", "shop"},
		{"https://proxy/orrery/spaces/shop", "https://proxy/orrery", "shop"},
		{"https://proxy/orrery/views/reports/spaces/shop/locations/*", "https://proxy/orrery", "shop"},
		{"https://h:8443/spaces/", "", ""},
		{"https://h:8443/views/locations/x", "", ""},
		{"https://h:8443/views/exports/shop/x/spaces/*", "", ""},
		{"https://h:8443/views/slices/shop/x/values/a/spaces/one", "", ""},
		{"https://h:8443", "", ""},
		{"://", "", ""},
	} {
		hub, space, err := splitServer(c.server)
		if hub != c.hub || space != c.space || (err == nil) != (c.hub != "") {
			t.Errorf("splitServer(%q) = %q, %q, %v; want %q, %q", c.server, hub, space, err, c.hub, c.space)
		}
	}
}

func TestShownAs(t *testing.T) {
	for _, c := range []struct{ identity, namespace, name string }{
		{"core/configmaps/store/web", "store", "configmaps/web"},
		{"apps/deployments/store/web", "store", "deployments.apps/web"},
		{"core/namespaces/store", "", "namespaces/store"},
		{"nonsense", "", "nonsense"},
	} {
		if namespace, name := shownAs(c.identity); namespace != c.namespace || name != c.name {
			t.Errorf("shownAs(%q) = %q, %q; want %q, %q", c.identity, namespace, name, c.namespace, c.name)
		}
	}
}

// TestTokenOfAnotherShard: a hub without support for shards ignores the unknown field of the
// request, and creates a join token for the first agent. The command must fail, so that no user
// starts a second agent with that token.
func TestTokenOfAnotherShard(t *testing.T) {
	join := wire.Join{Hub: "https://h", CA: "x", Location: "paris", Token: "t"}
	second := join
	second.Shard = 2
	for _, c := range []struct {
		made      wire.Join
		requested int32
		good      bool
	}{{join, 0, true}, {join, 1, true}, {join, 2, false}, {second, 2, true}, {second, 3, false}} {
		if err := isOfShard(c.made.Encode(), c.requested); (err == nil) != c.good {
			t.Errorf("asked for shard %d, the token is of %d: %v", c.requested, c.made.Shard, err)
		}
	}
}
