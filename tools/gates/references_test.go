package main

import "testing"

func TestBackwardGoal(t *testing.T) {
	for _, test := range []struct{ references, files, want int }{
		{0, 1, 1}, {3, 3, 1}, {5, 5, 1}, {10, 10, 2}, {14, 10, 2}, {15, 10, 3},
		{15, 11, 2}, {20, 11, 3}, {100, 40, 15}, {106, 40, 15},
	} {
		if got := backwardGoal(test.references, test.files); got != test.want {
			t.Errorf("%d references in %d files: %d, want %d", test.references, test.files, got, test.want)
		}
	}
}

func TestRoundUp(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 25, 25: 25, 26: 50, 500: 500, 501: 525} {
		if got := roundUp(n, 25); got != want {
			t.Errorf("roundUp(%d, 25) = %d, want %d", n, got, want)
		}
	}
}
