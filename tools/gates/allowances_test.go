package main

import (
	"maps"
	"strconv"
	"strings"
	"testing"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestParseAllowances(t *testing.T) {
	got, err := parseAllowances([]byte("# head\n\nmethods\tp.T\t30\nwords\tdocs/a b.md\t2\n"))
	want := allowances{{"methods", "p.T"}: 30, {"words", "docs/a b.md"}: 2}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	again, err := parseAllowances(got.format())
	if err != nil || !maps.Equal(again, want) {
		t.Errorf("formatted and read again: %v, %v", again, err)
	}
}

func TestFormatIsSorted(t *testing.T) {
	text := string(allowances{{"words", "a"}: 1, {"methods", "z"}: 30, {"methods", "b"}: 40}.format())
	if want := allowancesHead + "methods\tb\t40\nmethods\tz\t30\nwords\ta\t1\n"; text != want {
		t.Errorf("got %q, want %q", text, want)
	}
}

func TestParseAllowancesErrors(t *testing.T) {
	for text, want := range map[string]string{
		"methods p.T 30":                           "separated by one tab each",
		"methods\tp.T":                             "separated by one tab each",
		"methods\tp.T\t30\tmore":                   "separated by one tab each",
		"methods\t\t30":                            "separated by one tab each",
		"<<<<<<< HEAD":                             "separated by one tab each",
		"beauty\tp.T\t30":                          `no gate "beauty" has allowances`,
		"commits\tabc\t1":                          `no gate "commits" has allowances`,
		"methods\tp.T\tmany":                       "positive number",
		"methods\tp.T\t0":                          "positive number",
		"methods\tp.T\t-1":                         "positive number",
		"# head\nmethods\tp.T\t3\nmethods\tp.T\t2": "allowances.txt:3: second row for methods p.T",
	} {
		if _, err := parseAllowances([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
