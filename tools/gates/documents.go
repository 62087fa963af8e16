package main

import (
	"fmt"
	"strings"
)

const (
	// architecturePage is the document that a newcomer reads in one go.
	architecturePage = "ARCHITECTURE.md"
	maxArchitecture  = 15 // KB of 1,024 bytes
	glossaryPage     = "docs/glossary.md"
	maxTerms         = 60
	bytesPerKB       = 1024
)

// measureSize measures ARCHITECTURE.md in KB, rounded up: a figure in bytes would have to be
// lowered at each edit.
func measureSize(t *tree) (result, error) {
	return measurePage(t, architecturePage, func(p page) subject {
		return subject{
			figure: roundUp(len(p.data), bytesPerKB) / bytesPerKB, goal: maxArchitecture,
			findings: []finding{{file: p.path, text: fmt.Sprintf("%d bytes", len(p.data))}},
		}
	})
}

// measureGlossary counts the rows of the glossary.
func measureGlossary(t *tree) (result, error) {
	return measurePage(t, glossaryPage, func(p page) subject {
		rows := tableRows(string(p.data))
		return subject{figure: rows, goal: maxTerms, findings: []finding{{file: p.path, text: fmt.Sprintf("%d rows", rows)}}}
	})
}

// measurePage measures one document. There is nothing to check if it does not exist.
func measurePage(t *tree, name string, measure func(page) subject) (result, error) {
	pages, err := t.markdown()
	if err != nil {
		return result{}, err
	}
	for _, p := range pages {
		if p.path == name {
			s := measure(p)
			s.name = name
			return result{subjects: []subject{s}}, nil
		}
	}
	return result{skipped: "nothing to check, there is no " + name}, nil
}

// tableRows counts the rows of all tables, without their heads.
func tableRows(text string) int {
	rows := 0
	head := true
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			head = true
		case strings.Trim(line, "|-: ") == "": // the line below the head
			head = false
		case !head:
			rows++
		}
	}
	return rows
}
