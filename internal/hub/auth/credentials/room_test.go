package credentials

import "testing"

// TestUsersLeaveTokens: however many users without rights make all tokens that they may, there are some
// for the next one; one user alone may have as many as ever.
func TestUsersLeaveTokens(t *testing.T) {
	all := 0
	for user := range 100 {
		made := 0
		for made < maxMade(all) {
			made++
			all++
		}
		switch {
		case user == 0 && made < maxEach-50:
			t.Errorf("the first user may make %d tokens", made)
		case made < 1 || user < 60 && made < 10:
			t.Fatalf("user %d may make %d tokens: %d are made", user, made, all)
		}
		if user == 20 && all > maxTokens*2/3 {
			t.Errorf("twenty users have made %d of %d tokens", all, maxTokens)
		}
	}
	if all >= maxTokens-forAll {
		t.Errorf("users have made all %d tokens", all)
	}
	for all, want := range map[int]int{0: maxEach, maxTokens - forAll - 1: 1, maxTokens - forAll: 0, maxTokens: 0} {
		if got := maxMade(all); got != want {
			t.Errorf("of %d one user may have made %d, want %d", all, got, want)
		}
	}
}
