package expression

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/library"
)

const (
	// MaxParsed bounds a text that an expression parses, in bytes, and maxParsedDepth how
	// many lists and objects may lie in each other there.
	MaxParsed, maxParsedDepth = 64 << 10, 32
	// parsedPerCost is how many bytes are parsed for one unit of an expression's cost.
	parsedPerCost = 4

	parseFunction = "parseJSON"
	parseOverload = "orrery_parse_json_string"
)

// parseJSON is the function that reads JSON. Kubernetes' libraries have none.
func parseJSON() cel.EnvOption {
	return cel.Function(parseFunction, cel.Overload(parseOverload, []*cel.Type{cel.StringType}, cel.DynType,
		cel.UnaryBinding(func(v ref.Val) ref.Val {
			text, ok := v.(types.String)
			if !ok {
				return types.MaybeNoSuchOverloadErr(v)
			}
			if len(text) > MaxParsed {
				return types.NewErr("%s reads no more than %d bytes", parseFunction, MaxParsed)
			}
			parsed, err := Decode([]byte(text))
			if err != nil {
				return types.NewErr("%s: %v", parseFunction, err)
			}
			if DepthOf(parsed) > maxParsedDepth {
				return types.NewErr("%s: more than %d lists and objects lie in each other", parseFunction, maxParsedDepth)
			}
			return adapter{types.DefaultTypeAdapter}.NativeToValue(parsed)
		})))
}

// DepthOf is how many lists and objects lie in each other in a value.
func DepthOf(v any) (depth int) {
	switch v := v.(type) {
	case map[string]any:
		for _, below := range v {
			depth = max(depth, DepthOf(below))
		}
	case []any:
		for _, below := range v {
			depth = max(depth, DepthOf(below))
		}
	default:
		return 0
	}
	return depth + 1
}

// costs estimates the cost of functions: those of Kubernetes as Kubernetes does, parseJSON by the
// length of the text, and functions with large results by the size of the result.
type costs struct{ *library.CostEstimator }

var _ interpreter.ActualCostEstimator = costs{}

// CallCost implements interpreter.ActualCostEstimator.
func (c costs) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	if overload != parseOverload || len(args) != 1 {
		cost := c.CostEstimator.CallCost(function, overload, args, result)
		if made := madeCost(function, args, result); made > 1 && (cost == nil || made > *cost) {
			return &made
		}
		return cost
	}
	cost := uint64(1)
	if text, ok := args[0].(types.String); ok {
		cost += uint64(len(text)) / parsedPerCost
	}
	return &cost
}
