package expression

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/cel-go/interpreter"
)

const (
	// checksPerContext is how many iterations of comprehensions pass between two looks at the
	// context.
	checksPerContext = 256
	// interruptedVariable is the name by which the library asks whether to go on.
	interruptedVariable = "#interrupted"
)

// evaluation is the state of one evaluation. It is the activation below all those that the
// library adds, so that each node of the program finds it.
type evaluation struct {
	interpreter.Activation
	ctx           context.Context //nolint:containedctx // it lives as long as the call of Eval
	steps, checks int
	isInterrupted bool
}

// ResolveName implements interpreter.Activation.
func (e *evaluation) ResolveName(name string) (any, bool) {
	if name != interruptedVariable {
		return e.Activation.ResolveName(name)
	}
	if e.checks++; e.checks%checksPerContext == 0 && e.ctx.Err() != nil {
		e.isInterrupted = true
	}
	return e.isInterrupted, true
}

// Parent implements interpreter.Activation.
func (e *evaluation) Parent() interpreter.Activation { return e.Activation }

// evaluationOf finds the evaluation that a node belongs to; nil while the library folds
// constants, whose size the length of the expression bounds.
func evaluationOf(vars interpreter.Activation) *evaluation {
	for ; vars != nil; vars = vars.Parent() {
		if e, ok := vars.(*evaluation); ok {
			return e
		}
	}
	return nil
}

// left returns how many steps the evaluation may still take.
func (e *evaluation) left() int {
	if e == nil {
		return maxSteps
	}
	return maxSteps - e.steps
}

// spend charges steps, and cancels the evaluation if it has taken too many: no operator of the
// expression can then go on without the result.
func (e *evaluation) spend(function string, steps int) {
	if e == nil {
		return
	}
	if e.steps += steps; e.steps <= maxSteps {
		return
	}
	e.steps = maxSteps + 1
	what := strings.Trim(strings.TrimPrefix(function, boundPrefix), "_@")
	panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: fmt.Sprintf("cost limit exceeded: %s would take "+
		"the expression beyond %d values that it makes, compares or searches; compare fields instead of whole objects, or shorten its lists and texts",
		what, maxSteps)})
}
