package main

import (
	"fmt"
	"slices"
	"sync"
)

// A gate measures one property of the repository.
type gate struct {
	name     string
	subjects string // what a gate measures, in the plural
	unit     string // what a figure counts, in the plural
	goal     string // in words
	// advice is what to do about a subject above its allowance.
	advice string
	// strict gates have no rows: each subject above its goal fails.
	strict  bool
	measure func(*tree) (result, error)
}

// A result is what a gate measured. A gate that had nothing to measure gives the reason.
type result struct {
	subjects []subject
	skipped  string
}

// A subject is one thing that a gate measures: a type, a package, a file, a commit.
type subject struct {
	name     string
	figure   int
	goal     int
	findings []finding // most useful first
}

// A finding is a place that counts for the figure of its subject.
type finding struct {
	file string // below the root; empty if the finding is in no file
	line int
	text string
}

func (f finding) String() string {
	switch {
	case f.file == "":
		return f.text
	case f.line == 0:
		return f.file + ": " + f.text
	}
	return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.text)
}

// The gates that other files name.
const (
	methodsGate = "methods"
	wordsGate   = "words"
)

// gates returns all gates, in the order in which they are reported.
func gates() []gate {
	return slices.Concat(codeGates(), proseGates(), historyGates())
}

func historyGates() []gate {
	return []gate{
		{
			name: "history", subjects: "rows", unit: "raised rows", strict: true, measure: measureHistory,
			goal: "no row is new or higher than one commit before",
			advice: "bring the figure back and restore the row; for a move, edit rows in the commit that moves the files; " +
				"extend a gate in a commit of its own (see CONTRIBUTING.md)",
		}, {
			name: "commits", subjects: "commits", unit: "titles", goal: `"area: imperative"`, strict: true, measure: measureCommits,
			advice: "reword the commit: \"area: imperative\", at most 72 characters, such as \"hub: reject requests during shutdown\"",
		},
	}
}

func codeGates() []gate {
	return []gate{
		{
			name: methodsGate, subjects: "types", unit: "methods", measure: measureMethods,
			goal:   fmt.Sprintf("%d methods", maxMethods),
			advice: "split the type by responsibility: move state and the methods that use it to a type of its own",
		}, {
			name: "references", subjects: "packages", unit: "back references", measure: measureBackward,
			goal:   fmt.Sprintf("%d %% back references (small packages: %d %%)", maxBackward, maxBackwardSmall),
			advice: "let references between files run one way: move the declaration to the file that uses it, or to a file below both",
		}, {
			name: "mutual", subjects: "packages", unit: "pairs of files that use each other", measure: measureMutual,
			goal:   "no pairs",
			advice: "merge the two files, or move the shared code to a third file",
		}, {
			name: "lines", subjects: "files", unit: "lines", measure: measureLines,
			goal:   fmt.Sprintf("%d lines", maxLines),
			advice: "split the file by responsibility",
		},
	}
}

func proseGates() []gate {
	return []gate{
		{
			name: wordsGate, subjects: "directories and documents", unit: "findings", measure: measureWords,
			goal:   "no findings",
			advice: "write standard English and standard terms; " + wordsFile + " lists what is refused",
		}, {
			name: "sentences", subjects: "documents", unit: fmt.Sprintf("sentences above %d words", maxWords), measure: measureSentences,
			goal:   fmt.Sprintf("no sentence above %d words", maxWords),
			advice: fmt.Sprintf("split sentences above %d words; aim for at most 25", maxWords),
		}, {
			name: "size", subjects: "documents", unit: "KB", measure: measureSize,
			goal:   fmt.Sprintf("%d KB", maxArchitecture),
			advice: "move detail to a page in docs/ and link to it",
		}, {
			name: "glossary", subjects: "documents", unit: "terms", measure: measureGlossary,
			goal:   fmt.Sprintf("%d terms", maxTerms),
			advice: "use the standard term in place of a new one",
		}, {
			name: "titles", subjects: "folders", unit: "titles that are no subject", measure: measureTitles,
			goal:   "no titles",
			advice: fmt.Sprintf("name the subject in at most %d words without a verb, such as \"Shard fencing\"", maxTitle),
		},
	}
}

// A measurement is the result of a gate, or why there is none.
type measurement struct {
	gate gate
	result
	err error
}

// measureAll runs all gates at the same time.
func measureAll(t *tree, all []gate) []measurement {
	measured := make([]measurement, len(all))
	var running sync.WaitGroup
	for i, g := range all {
		running.Go(func() {
			r, err := g.measure(t)
			measured[i] = measurement{g, r, err}
		})
	}
	running.Wait()
	return measured
}
