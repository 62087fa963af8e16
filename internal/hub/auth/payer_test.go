package auth

import (
	"testing"

	"orrery.dev/orrery/internal/hub/auth/bearer"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestPayers: requests with credentials of a space are charged to the space, since its owners can
// create any number of users; all others are charged to the user.
func TestPayers(t *testing.T) {
	for scope, want := range map[*bearer.Scope]string{nil: "", {Space: key.Root}: "space root"} {
		ctx := withConditions(t.Context())
		if err := limit(ctx, nil, scope); err != nil {
			t.Fatal(err)
		}
		if got := CredentialOf(ctx).payer; got != want {
			t.Errorf("%q is charged, want %q", got, want)
		}
	}
}
