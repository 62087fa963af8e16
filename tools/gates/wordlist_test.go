package main

import (
	"slices"
	"strings"
	"testing"
)

func TestParseWordListErrors(t *testing.T) {
	for text, want := range map[string]string{
		"phrase says that":                                 "separated by tabs",
		"phrase\tsays that":                                "separated by tabs",
		"rhyme\tsays that\treports":                        `kind "rhyme" is none of`,
		"phrase\tSays that\treports":                       `"Says" is not one word in lower case`,
		"phrase\tsays, that\treports":                      `"says," is not one word`,
		"phrase\tsays| that\treports":                      `"" is not one word`,
		"identifier\tof by\towner":                         `"of by" is not one word`,
		"identifier\tof||by\towner":                        `"" is not one word`,
		"identifier\tof\towner\nidentifier\tby|of\tauthor": `words.txt:2: pattern "by|of": "of" has a row already`,
		"phrase\tsays that\ta\n\nphrase\tsay|says that\tb": `words.txt:3: phrase "says that" has a row already`,
		"term\tcensus\tscan\nphrase\tcensus\tscan":         `phrase "census" has a row already`,
		"# head\nterm\tcensus\tscan\nterm\tcensus\tupsync": "words.txt:3",
	} {
		if _, err := parseWordList([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestPhrases(t *testing.T) {
	list, err := parseWordList([]byte("phrase\tsays|say that|whether\treports\nphrase\twho\tactor\nphrase\tsays who\tactor\nterm\tcensus\tscan\n"))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]string{
		"The hub reports that.":               nil,
		"It says that, and SAY whether.":      {"says that", "say whether"},
		"says\n\tthat":                        {"says that"},
		"says, that; says - that; says (that": nil,
		"who says who":                        {"who", "says who"},
		"whose whoever says. Who":             {"who"},
		"A census of censuses":                {"census"},
		"says":                                nil,
	} {
		var got []string
		for _, m := range list.phrases.find(splitWords(text)) {
			got = append(got, m.text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
}

func TestCamelWords(t *testing.T) {
	for name, want := range map[string]string{
		"census": "census", "newCensus": "new census", "HTTPServer": "http server", "serveHTTP": "serve http",
		"a_b": "a b", "Test_Census": "test census", "x": "x", "größeÄndern": "größe ändern",
	} {
		if got := strings.Join(camelWords(name), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// The list in the repository must be well-formed, too.
func TestRepositoryWordList(t *testing.T) {
	list, err := readWordList("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(list.phrases) == 0 || len(list.identifiers) == 0 || len(list.terms) == 0 {
		t.Error("a kind has no rows")
	}
}
