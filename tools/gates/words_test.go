package main

import (
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

const testWords = "phrase\tsays that\treports that\nidentifier\tof|at|has\tnoun\nterm\tcensus|censuses\tscan\n"

func testList(t *testing.T) *wordList {
	t.Helper()
	list, err := parseWordList([]byte(testWords))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func testSource(t *testing.T, path, text string) source {
	t.Helper()
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return source{path, fset, syntax}
}

func texts(all []finding) []string {
	var list []string
	for _, f := range all {
		list = append(list, f.String())
	}
	return list
}

func TestWordsInSource(t *testing.T) {
	for name, test := range map[string]struct {
		path, text string
		want       []string
	}{
		"comment over two lines":   {"a.go", "package p\n\n// It says\n// that.\nvar a int", []string{`a.go:3: "says that"; instead: reports that`}},
		"second line of a comment": {"a.go", "package p\n\n// It\n// says that.\nvar a int", []string{`a.go:4: "says that"; instead: reports that`}},
		"block comment":            {"a.go", "package p\n\n/* It\nsays that. */\nvar a int", []string{`a.go:4: "says that"; instead: reports that`}},
		"message":                  {"a.go", "package p\n\nvar a = \"it says that\"", []string{`a.go:3: "says that"; instead: reports that`}},
		"message of a test":        {"a_test.go", "package p\n\nvar a = \"it says that\"", nil},
		"comment of a test":        {"a_test.go", "package p // says that", []string{`a_test.go:1: "says that"; instead: reports that`}},
		"string without a space":   {"a.go", "package p\n\nvar a = \"census\"", nil},
		"tag":                      {"a.go", "package p\n\ntype a struct { B int `json:\"census\" yaml:\"b\"` }", nil},
		"declared names": {"a.go", "package p\n\ntype Of struct{ at int }\nfunc (of Of) At(at int) (of int) { at := of; for of := range at { _ = of }; var at = 1; const of = 2; return at }", []string{
			"a.go:3: name Of; instead: noun", "a.go:3: name at; instead: noun",
			"a.go:4: name At; instead: noun", "a.go:4: name of; instead: noun", "a.go:4: name at; instead: noun", "a.go:4: name of; instead: noun",
			"a.go:4: name at; instead: noun", "a.go:4: name of; instead: noun", "a.go:4: name at; instead: noun", "a.go:4: name of; instead: noun",
		}},
		"parts of names": {"a.go", "package p\n\nfunc ofAt() {}", nil},
		"used names":     {"a.go", "package p\n\nfunc f() { x.of = y.At(of) }", nil},
		"names with numbers": {"a.go", "package p\n\nvar at2, ofOf1, at1st, _of_1, census3, newCensus12Now, part int", []string{
			"a.go:3: name at2; instead: noun", "a.go:3: name _of_1; instead: noun",
			`a.go:3: "census" in name census3; instead: scan`, `a.go:3: "census" in name newCensus12Now; instead: scan`,
		}},
		"joined strings":             {"a.go", "package p\n\nvar a = \"it says \" + \"that\"", []string{`a.go:3: "says that"; instead: reports that`}},
		"joined without spaces":      {"a.go", "package p\n\nvar a = (\"says\" + \" \") + (\"th\" +\n\"at\")", []string{`a.go:3: "says that"; instead: reports that`}},
		"joined on several lines":    {"a.go", "package p\n\nvar a = \"one\\n\" +\n\"two \" +\n\n\"says that\"", []string{`a.go:6: "says that"; instead: reports that`}},
		"joined with a raw string":   {"a.go", "package p\n\nvar a = `one\ntwo ` +\n\"says that\"", []string{`a.go:5: "says that"; instead: reports that`}},
		"joined with a value":        {"a.go", "package p\n\nvar a = b + \"it says \" + c + \"that \" + \"says that\" + d(\"says that\" + e)", []string{`a.go:3: "says that"; instead: reports that`, `a.go:3: "says that"; instead: reports that`}},
		"joined without being a sum": {"a.go", "package p\n\nvar a = \"it says \" < \"that\"", nil},
		"method of labels.Labels":    {"a.go", "package p\n\nfunc (a b) Has(label string) bool { return true }", nil},
		"Has with other types":       {"a.go", "package p\n\nfunc (a b) Has(n int) bool { return true }", []string{"a.go:3: name Has; instead: noun"}},
		"Has without a receiver":     {"a.go", "package p\n\nfunc Has(label string) bool { return true }", []string{"a.go:3: name Has; instead: noun"}},
		"term in a name":             {"a.go", "package p\n\nfunc newCensus() {}", []string{`a.go:3: "census" in name newCensus; instead: scan`}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := texts(testList(t).inSource(testSource(t, test.path, test.text))); !slices.Equal(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}

func TestWordsInPage(t *testing.T) {
	text := "# The census\n\nIt `says that` and\nsays that.\n\n```\nsays that\n```\n"
	want := []string{`a.md:1: "census"; instead: scan`, `a.md:4: "says that"; instead: reports that`}
	if got := texts(testList(t).inPage(page{"a.md", []byte(text)})); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
