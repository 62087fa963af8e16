package orrery_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const glossaryPage = "docs/glossary.md"

// newNames lists the exported types whose names do not consist of terms of the glossary,
// each with the name that it will have. The list may only become shorter: a type that gets
// its new name loses its row.
var newNames = map[string]string{
	"apis/v1alpha1.Admit":              "LocationAdmission",
	"apis/v1alpha1.AssociatedKinds":    "AssociatedObjectKind",
	"apis/v1alpha1.BoundResource":      "BindingResource",
	"apis/v1alpha1.ConfirmedPrune":     "RemovalConfirmation",
	"apis/v1alpha1.Counts":             "Progress",
	"apis/v1alpha1.ExportedResource":   "ExportResource",
	"apis/v1alpha1.Follows":            "ReferencedKind",
	"apis/v1alpha1.Impersonate":        "Impersonation",
	"apis/v1alpha1.KindTest":           "KindSelector",
	"apis/v1alpha1.LeftCounts":         "RemovalProgress",
	"apis/v1alpha1.Mapping":            "AgentState",
	"apis/v1alpha1.NamespacePlacing":   "NamespaceMapping",
	"apis/v1alpha1.ObjectTest":         "ObjectSelector",
	"apis/v1alpha1.OnConflict":         "ConflictPolicy",
	"apis/v1alpha1.OnDrift":            "DriftPolicy",
	"apis/v1alpha1.OnImmutable":        "ImmutablePolicy",
	"apis/v1alpha1.OnMissing":          "MissingPolicy",
	"apis/v1alpha1.OnRemove":           "RemovalPolicy",
	"apis/v1alpha1.PendingPrune":       "PendingRemoval",
	"apis/v1alpha1.PlacementPrune":     "PlacementRemoval",
	"apis/v1alpha1.Prune":              "RemovalGuard",
	"apis/v1alpha1.RestEndpoint":       "SliceEndpoint, of objects without a slice",
	"apis/v1alpha1.ReturnStatus":       "ReturnedStatusPolicy",
	"apis/v1alpha1.SpacePrune":         "SpaceRemoval",
	"apis/v1alpha1.Split":              "SliceField",
	"apis/v1alpha1.SummaryCombine":     "SummaryCombination",
	"apis/v1alpha1.SummaryCombineType": "CombinationType",
	"apis/v1alpha1.TaintEffect":        "TaintType",
	"apis/v1alpha1.TolerationOperator": "TolerationType",
	"apis/v1alpha1.WaitingPrune":       "PendingRemoval",

	"apis/v1alpha1.SummaryColumnExpression": "ColumnExpression",
	"apis/v1alpha1.SummaryColumnType":       "ColumnType",
	"apis/v1alpha1.GrantSubjectKind":        "SubjectKind",

	"internal/lib/fieldset.Created": "OwnerFields",
	"internal/lib/jsonscan.Nesting": "Depth",
	"internal/lib/watchdog.Work":    "Worker",
	"internal/lib/fairqueue.Rates":  "RateLimiter",

	"internal/protocol/endpoint.Named":        "EndpointName",
	"internal/protocol/key.Called":            "ObjectName",
	"internal/protocol/key.Located":           "TargetObject",
	"internal/protocol/key.Origin":            "ReportType",
	"internal/protocol/key.Placing":           "NamespaceMapping",
	"internal/protocol/key.PlacementRef":      "PlacementReference",
	"internal/protocol/key.Rank":              "ResourceOrder",
	"internal/protocol/key.Wide":              "ExportViewName",
	"internal/protocol/ownership.Answer":      "ObjectResponse",
	"internal/protocol/ownership.Meta":        "ObjectMetadata",
	"internal/protocol/ownership.Observation": "TargetObject",
	"internal/protocol/ownership.Origin":      "Source",
	"internal/protocol/ownership.Pair":        "LogPosition",
	"internal/protocol/route.Root":            "APIRoot",
	"internal/protocol/wire.Del":              "Delete",
	"internal/protocol/wire.Enrol":            "EnrolmentRequest",
	"internal/protocol/wire.Gone":             "RemovalRequest",
	"internal/protocol/wire.Issued":           "Credential",
	"internal/protocol/wire.Join":             "JoinToken",
	"internal/protocol/wire.Mark":             "Bookmark",
	"internal/protocol/wire.PlacementPrune":   "PlacementRemoval",
	"internal/protocol/wire.PruneStatus":      "RemovalStatus",
	"internal/protocol/wire.Refusal":          "CredentialError",
	"internal/protocol/wire.RefusedReport":    "ReportError",
	"internal/protocol/wire.ReportsAnswer":    "ReportResponse",
	"internal/protocol/wire.SpacePrune":       "SpaceRemoval",
	"internal/protocol/wire.Span":             "Range",
	"internal/protocol/wire.StatusAnswer":     "StatusResponse",
	"internal/protocol/wire.Sum":              "ContentHash",
	"internal/protocol/wire.UnreadKind":       "MissingKind",
	"internal/protocol/wire.Walk":             "Comparison",
	"internal/protocol/wire.Wanted":           "Replicas",
}

// TestGlossary checks that every exported type below apis, internal/protocol and internal/lib
// is named by a term of the glossary or by a compound of two, and that the owner of each term
// exists.
func TestGlossary(t *testing.T) {
	terms := glossaryTerms(t)
	seen := map[string]bool{}
	for _, root := range []string{"apis", "internal/protocol", "internal/lib"} {
		for _, dir := range sourceFolders(t, root) {
			for _, name := range exportedTypes(t, dir) {
				full := dir + "." + name
				seen[full] = true
				_, renamed := newNames[full]
				switch isTerm := isCompound(name, terms); {
				case isTerm && renamed:
					t.Errorf("%s is a term of %s: remove its row from newNames", full, glossaryPage)
				case !isTerm && !renamed:
					t.Errorf("%s is neither a term of %s nor a compound of two: rename the type, or define the term", full, glossaryPage)
				}
			}
		}
	}
	for _, full := range slices.Sorted(maps.Keys(newNames)) {
		if !seen[full] {
			t.Errorf("there is no type %s: remove its row from newNames", full)
		}
		name, _, _ := strings.Cut(newNames[full], ",")
		if !isCompound(name, terms) {
			t.Errorf("the new name %s of %s is neither a term of %s nor a compound of two", name, full, glossaryPage)
		}
	}
}

// glossaryTerms returns the terms in the form of foldName. It fails for a term without a
// meaning, a term that is defined twice, and an owner that is no folder.
func glossaryTerms(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(glossaryPage)
	if err != nil {
		t.Fatal(err)
	}
	terms := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| ([^|]+) \\| ([^|]+) \\| `([^|`]+)` \\|$").FindAllStringSubmatch(string(text), -1) {
		if info, err := os.Stat(row[3]); err != nil || !info.IsDir() {
			t.Errorf("%s: %s: there is no package %s", glossaryPage, row[1], row[3])
		}
		for term := range strings.SplitSeq(row[1], ", ") {
			folded := foldName(term)
			if terms[folded] {
				t.Errorf("%s defines %s twice", glossaryPage, term)
			}
			terms[folded] = true
		}
	}
	if len(terms) == 0 {
		t.Fatalf("%s defines no terms", glossaryPage)
	}
	return terms
}

// foldName returns a name in small letters without spaces.
func foldName(name string) string { return strings.ToLower(strings.ReplaceAll(name, " ", "")) }

// isCompound reports whether a type name is one term, or two terms in sequence. Each term
// may be in the plural.
func isCompound(name string, terms map[string]bool) bool {
	isTerm := func(word string) bool {
		word = foldName(word)
		return terms[word] || terms[strings.TrimSuffix(word, "s")] || terms[strings.TrimSuffix(word, "ies")+"y"]
	}
	if isTerm(name) {
		return true
	}
	for i, letter := range name {
		if i > 0 && letter >= 'A' && letter <= 'Z' && isTerm(name[:i]) && isTerm(name[i:]) {
			return true
		}
	}
	return false
}

// sourceFolders returns the folders below a root, and the root itself.
func sourceFolders(t *testing.T, root string) []string {
	t.Helper()
	var dirs []string
	if err := filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() != "testdata" {
			dirs = append(dirs, filepath.ToSlash(dir))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return dirs
}

// exportedTypes returns the exported types that the files of a folder declare, without
// those of tests.
func exportedTypes(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range parsed.Decls {
			general, ok := declaration.(*ast.GenDecl)
			if !ok || general.Tok != token.TYPE {
				continue
			}
			for _, spec := range general.Specs {
				if name := spec.(*ast.TypeSpec).Name; name.IsExported() {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}
