package expression

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"orrery.dev/orrery/internal/lib/quantity"
)

// charge returns how many steps a call takes, before it is made. It stops counting when there
// are more than most. It depends on the arguments alone, and on no order of a map.
type charge func(args []ref.Val, most int) int

// charges has what calls of each function are charged. A function that is neither here nor in
// unchargedNames can't be called.
func charges() map[string]charge {
	all := map[string]charge{
		operators.Equals:    chargeComparison,
		operators.NotEquals: chargeComparison,
		operators.In:        chargeMembership,
		operators.OldIn:     chargeMembership,
		"in":                chargeMembership,
		operators.Add:       chargeAddition,

		"indexOf":         chargeIndex,
		"lastIndexOf":     chargeIndex,
		"distinct":        func(args []ref.Val, most int) int { return pairsOf(args[0], args[0], most) },
		"sets.contains":   chargePairs,
		"sets.equivalent": chargePairs,
		"sets.intersects": chargePairs,

		"replace":     func(args []ref.Val, _ int) int { return replaced(args) },
		"join":        func(args []ref.Val, _ int) int { return joined(args) },
		"format":      func(args []ref.Val, _ int) int { return formatted(args) },
		"flatten":     func(args []ref.Val, _ int) int { return flattened(args) },
		"lists.range": chargeRange,
		parseFunction: chargeParsing,
		"quantity":    chargeQuantity,
		"isQuantity":  chargeQuantity,

		"matches":               chargePattern,
		"find":                  chargePattern,
		"findAll":               chargePattern,
		boundMatches:            chargePattern,
		boundPrefix + "find":    chargePattern,
		boundPrefix + "findAll": chargePattern,
	}
	for _, name := range walkingNames {
		all[name] = chargeWalk
	}
	for _, name := range zonedNames {
		all[name] = chargeZone
	}
	return all
}

// walkingNames are functions that walk through the texts and the lists among their arguments
// once.
var walkingNames = []string{
	"contains", "startsWith", "endsWith", "size", "charAt", "substring", "split", "trim", "lowerAscii", "upperAscii", "strings.quote",
	operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
	"string", "bytes", "int", "uint", "double", "bool", "duration", "timestamp",
	"url", "isURL", "ip", "isIP", "ip.isCanonical", "cidr", "isCIDR", "containsIP", "containsCIDR", "semver", "isSemver",
	"getEscapedPath", "getHost", "getHostname", "getPort", "getQuery", "getScheme", "format.named", "validate",
	"sort", "@sortByAssociatedKeys", "isSorted", "max", "min", "sum", "reverse", "slice", "optional.unwrap", "unwrapOpt", "optional.ofNonZeroValue",
}

// zonedNames are functions that may have a time zone read from disk.
var zonedNames = []string{
	"getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds", "getMinutes", "getMonth", "getSeconds",
}

// unchargedNames are functions that take the same time whatever their arguments are. What CEL
// counts for them is enough.
var unchargedNames = []string{
	operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional, operators.NotStrictlyFalse, "__not_strictly_false__",
	operators.Negate, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo,
	operators.Index, operators.OptIndex, operators.OptSelect, "type", "dyn", "first", "last",
	"optional.of", "optional.none", "hasValue", "value", "or", "orValue",
	"add", "sub", "sign", "compareTo", "isGreaterThan", "isLessThan", "isInteger", "asInteger", "asApproximateFloat",
	"family", "isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast", "masked", "prefixLength",
	"major", "minor", "patch",
	"format.byte", "format.date", "format.datetime", "format.dns1035Label", "format.dns1035LabelPrefix", "format.dns1123Label", "format.dns1123LabelPrefix",
	"format.dns1123Subdomain", "format.dns1123SubdomainPrefix", "format.labelValue", "format.qualifiedName", "format.uri", "format.uuid",
}

// allCharged fails if an environment has a function of which it is not known what it costs.
func allCharged(env *cel.Env) error {
	known := charges()
	for name := range env.Functions() {
		if known[name] == nil && !slices.Contains(unchargedNames, name) {
			return fmt.Errorf("function %s has no charge", name)
		}
	}
	return nil
}

func chargeComparison(args []ref.Val, most int) int { return compared(args[0], args[1], most) }

func chargeMembership(args []ref.Val, most int) int {
	list, ok := args[1].(traits.Lister)
	if !ok {
		return 1 + len(textIn(args[0]))/bytesPerStep
	}
	n, size := 1, lengthOf(list)
	if isScalarValue(args[0]) {
		return n + size
	}
	for i := 0; i < size && n <= most; i++ {
		n += compared(args[0], list.Get(types.Int(i)), most-n)
	}
	return n
}

// chargeAddition charges a list for all that it unfolds to, but for the one in which a macro
// collects its results: what is added to that was charged when it was made.
func chargeAddition(args []ref.Val, most int) int {
	switch a := args[0].(type) {
	case types.String:
		return 1 + (len(a)+len(textIn(args[1])))/bytesPerStep
	case types.Bytes:
		if b, ok := args[1].(types.Bytes); ok {
			return 1 + (len(a)+len(b))/bytesPerStep
		}
	case traits.MutableLister:
		return lengthOf(args[1])
	case traits.Lister:
		n := unfolded(a, most)
		return n + unfolded(args[1], most-n)
	}
	return 1
}

// chargeIndex charges the search for an element of a list, or for a text: that compares at
// each character.
func chargeIndex(args []ref.Val, most int) int {
	if list, ok := args[0].(traits.Lister); ok {
		return chargeMembership([]ref.Val{args[1], list}, most)
	}
	text, searched := utf8.RuneCountInString(textIn(args[0])), utf8.RuneCountInString(textIn(args[1]))
	return 1 + (text*max(1, min(searched, text-searched+1))+searched)/bytesPerStep
}

func chargePairs(args []ref.Val, most int) int { return pairsOf(args[0], args[1], most) }

// pairsOf is what it takes at most to compare each element of a list with each of another one.
func pairsOf(a, b ref.Val, most int) int {
	left, right := unfolded(a, most), unfolded(b, most)
	return min(left*(1+lengthOf(b)), right*(1+lengthOf(a)))
}

// chargeParsing charges as costs does. What is longer than a text that is parsed is not read.
func chargeParsing(args []ref.Val, _ int) int {
	if n := len(textIn(args[0])); n <= MaxParsed {
		return n * stepsPerCost / parsedPerCost
	}
	return 1
}

func chargeRange(args []ref.Val, most int) int {
	n, _ := args[0].(types.Int)
	if n > MaxCost {
		return most + 1
	}
	return max(0, int(n))
}

func chargeQuantity(args []ref.Val, most int) int {
	if quantity.IsHuge(textIn(args[0])) {
		return most + 1
	}
	return chargeWalk(args, most)
}

func chargePattern(args []ref.Val, _ int) int { return min(searched(args), MaxCost+1) * stepsPerCost }

func chargeWalk(args []ref.Val, _ int) (n int) {
	for _, v := range args {
		switch v := v.(type) {
		case types.String:
			n += len(v) / bytesPerStep
		case types.Bytes:
			n += len(v) / bytesPerStep
		case traits.Lister:
			n += lengthOf(v)
		}
	}
	return n
}

// chargeZone charges what it takes to read a time zone, unless it is one of those that need no
// file.
func chargeZone(args []ref.Val, _ int) int {
	const read = 500
	if len(args) < 2 || strings.EqualFold(textIn(args[1]), "UTC") {
		return 1
	}
	return read
}
