package ownership

import "testing"

func TestPairText(t *testing.T) {
	for text, want := range map[string]Pair{
		"M.7": NewPair("M", 7), "a.b.7": NewPair("a.b", 7),
		"": {}, "M": {}, "M.": {}, ".7": {}, "M.-7": {}, "M.0": {}, "M.7x": {},
		"0123456789012345678901234567890123456789012345678901234567890123456789.7": {},
	} {
		got := ParsePair(text)
		if got != want {
			t.Errorf("%q: %v", text, got)
		}
		if !got.IsZero() && got.String() != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}
