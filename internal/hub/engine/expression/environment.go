// Package expression is CEL as users of Orrery have it: the libraries of Kubernetes, each at a
// version of its own, with bounds on what an expression costs and makes, over variables that
// each user of the package declares.
//
// An expression is a function of its variables. The package must never have a clock, a client
// or a log, nor know what expressions are for. Only the hub links it.
package expression

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

const (
	// MaxLength bounds an expression, in bytes, as the schemas do.
	MaxLength = 4096
	// MaxCost bounds what the evaluation of one expression costs, in CEL's units. A usual
	// one costs less than a hundred.
	MaxCost = 20_000
)

// Type declares the type of a variable that is an object with the given fields.
func Type(name string, fields map[string]*apiservercel.DeclType) *apiservercel.DeclType {
	all := map[string]*apiservercel.DeclField{}
	for field, t := range fields {
		all[field] = apiservercel.NewDeclField(field, t, true, nil, nil)
	}
	return apiservercel.NewObjectType(name, all)
}

// Labels are the type of labels.
func Labels() *apiservercel.DeclType {
	return apiservercel.NewMapType(apiservercel.StringType, apiservercel.StringType, -1)
}

// Location is the type of what expressions see of a location.
func Location() *apiservercel.DeclType {
	return Type("orrery.Location", map[string]*apiservercel.DeclType{
		"name": apiservercel.StringType, "labels": Labels(),
		"properties": apiservercel.NewMapType(apiservercel.StringType, apiservercel.DynType, -1),
	})
}

// New makes an environment with variables that are objects, by their types, and others. It has
// the libraries that Kubernetes gives to CEL, each at a version of its own,
// so that no upgrade changes what expressions mean. It leaves out what can't be evaluated here
// (authorizers), and comprehensions of two variables, since the maps that these make have
// no order.
func New(objects map[string]*apiservercel.DeclType, others ...cel.EnvOption) (*cel.Env, error) {
	base, err := cel.NewEnv(
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(cel.OptionalTypesVersion(2)),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals()),
		library.URLs(), library.Regex(), library.Lists(), library.Quantity(), library.IP(), library.CIDR(), library.Format(),
		library.SemverLib(library.SemverVersion(1)),
		ext.Strings(ext.StringsVersion(2)), ext.Sets(), ext.Lists(ext.ListsVersion(3)),
	)
	if err != nil {
		return nil, err
	}
	options, err := boundCalls(base)
	if err != nil {
		return nil, err
	}
	var declared []*apiservercel.DeclType
	for name, t := range objects {
		declared = append(declared, t)
		others = append(others, cel.Variable(name, t.CelType()))
	}
	provided, err := apiservercel.NewDeclTypeProvider(declared...).EnvOptions(base.CELTypeProvider())
	if err != nil {
		return nil, err
	}
	options = append(options, provided...)
	options = append(options, cel.CustomTypeAdapter(adapter{types.DefaultTypeAdapter}), parseJSON())
	return base.Extend(append(options, others...)...)
}

// Compile compiles an expression in an environment that New made, or that extends one.
func Compile(env *cel.Env, expression string) (*cel.Ast, cel.Program, error) {
	return compile(env, expression, func(*cel.Ast) bool { return true })
}

// CompileLight is Compile for those who evaluate expressions very often: of one that costs no
// more than LightCost, whatever its variables are, it is not counted what it costs.
func CompileLight(env *cel.Env, expression string) (*cel.Ast, cel.Program, error) {
	return compile(env, expression, func(checked *cel.Ast) bool { return !light(checked.NativeRep().Expr()) })
}

func compile(env *cel.Env, expression string, counts func(*cel.Ast) bool) (*cel.Ast, cel.Program, error) {
	if len(expression) > MaxLength {
		return nil, nil, fmt.Errorf("may not be longer than %d bytes", MaxLength)
	}
	checked, issues := env.Compile(expression)
	if issues != nil && len(issues.Errors()) > 0 {
		return nil, nil, errors.New("not valid: " + Messages(issues))
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if counts(checked) {
		options = append(options, cel.CostTracking(costs{&library.CostEstimator{}}), cel.CostLimit(MaxCost))
	}
	program, err := env.Program(checked, options...)
	if err != nil {
		return nil, nil, fmt.Errorf("not valid: %w", err)
	}
	return checked, program, nil
}

// Messages are the messages of issues, without the text around them.
func Messages(issues *cel.Issues) string {
	var all []string
	for _, e := range issues.Errors() {
		all = append(all, fmt.Sprintf("%d:%d: %s", e.Location.Line(), e.Location.Column()+1, e.Message))
	}
	return strings.Join(all, "; ")
}

// Failure is why an evaluation failed, for people.
func Failure(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "evaluation error: "))
}

// Decode decodes JSON; numbers stay as they are written.
func Decode(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return v, nil
}

// Encode is canonical JSON of what Decode gives, or of a type of which all can be encoded.
func Encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // there is nothing in it that can't be encoded
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
