package main

import (
	"fmt"
	"path"
)

// maxTitle is how many words a title may have.
const maxTitle = 6

// titleFolders are the folders whose pages have a subject for a title.
func titleFolders() []string { return []string{"docs/design"} }

// measureTitles counts, in each folder, the titles that are clauses. The index of a folder
// counts, too.
func measureTitles(t *tree) (result, error) {
	pages, err := t.markdown()
	if err != nil {
		return result{}, err
	}
	var folders []subject
	for _, folder := range titleFolders() {
		if s, ok := clauses(folder, pages); ok {
			folders = append(folders, s)
		}
	}
	return result{subjects: folders}, nil
}

// clauses returns the titles of a folder that are clauses, and whether the folder has pages.
func clauses(folder string, pages []page) (subject, bool) {
	s := subject{name: folder}
	exists := false
	for _, p := range pages {
		if path.Dir(p.path) != folder {
			continue
		}
		exists = true
		title := titleOf(p)
		if reason := clauseReason(title.text); reason != "" {
			s.findings = append(s.findings, finding{p.path, title.line, fmt.Sprintf("title %q %s", title.text, reason)})
		}
	}
	s.figure = len(s.findings)
	return s, exists
}

// titleOf returns the first heading of a page; its zero value if it has none.
func titleOf(p page) block {
	for _, b := range prose(p.data) {
		if b.heading > 0 {
			return b
		}
	}
	return block{}
}

// clauseReason returns why a title is no subject, or nothing. A title is a noun phrase: at
// most maxTitle words, no question word in front, and no finite verb.
//
// The list of verbs omits words that are also nouns, such as "watches". So some clauses pass,
// but no noun phrase fails.
func clauseReason(title string) string {
	words := splitWords(title)
	switch {
	case len(words) == 0:
		return "is missing"
	case len(words) > maxTitle:
		return fmt.Sprintf("has %d words, more than %d", len(words), maxTitle)
	case isQuestion(words[0].text):
		return fmt.Sprintf("begins with %q", words[0].text)
	}
	for _, w := range words {
		if isFiniteVerb(w.text) {
			return fmt.Sprintf("has the verb %q", w.text)
		}
	}
	return ""
}

func isQuestion(word string) bool {
	switch word {
	case "what", "who", "whom", "whose", "which", "how", "why", "when", "where", "whether", "that":
		return true
	}
	return false
}

func isFiniteVerb(word string) bool {
	switch word {
	case "is", "are", "was", "were", "isn't", "aren't", "has", "have", "had", "does", "do", "did", "don't",
		"can", "cannot", "can't", "could", "may", "might", "must", "shall", "should", "will", "would",
		"agree", "agrees", "asks", "become", "becomes", "begin", "begins", "belong", "belongs", "compares", "compute", "computes",
		"decide", "decides", "depend", "depends", "exist", "exists", "fits", "follow", "follows", "freezes", "gets",
		"give", "gives", "go", "goes", "happen", "happens", "hear", "hears", "keep", "keeps", "know", "knows", "leads",
		"lies", "lives", "make", "makes", "mean", "means", "need", "prove", "proves", "recompute", "remain", "remains",
		"repairs", "rests", "says", "say", "sees", "sends", "share", "show", "shows", "stands", "stay", "stays",
		"take", "takes", "tells", "travel", "travels", "wait", "waits", "writes":
		return true
	}
	return false
}
