package expression

const (
	// MaxLength bounds an expression, in bytes, as the schemas do.
	MaxLength = 4096
	// MaxCost bounds what the evaluation of one expression costs, in CEL's units. A usual
	// one costs less than a hundred.
	MaxCost = 20_000
	// stepsPerCost is how many steps cost one of CEL's units, as CEL counts ten bytes of a text.
	stepsPerCost = 10
	// maxSteps bounds the steps of one evaluation. A step is a part of a value that is made,
	// compared or searched, or bytesPerStep bytes of a text.
	maxSteps = MaxCost * stepsPerCost
	// bytesPerStep is how many bytes of a text are walked through in one step.
	bytesPerStep = 32
	// boundPrefix begins the names of functions that stand for others.
	boundPrefix = "orrery_"
)
