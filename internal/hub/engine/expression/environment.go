// Package expression is CEL as users of Orrery have it: the libraries of Kubernetes, each at a
// version of its own, with bounds on what an expression costs and makes, over variables that
// each user of the package declares.
//
// An expression is a function of its variables. The package must never have a clock, a client
// or a log, nor know what expressions are for. Only the hub links it.
package expression

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"
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
	options, err := boundPatterns(base)
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
	env, err := base.Extend(append(options, others...)...)
	if err != nil {
		return nil, err
	}
	return env, allCharged(env)
}

// Messages are the messages of issues, without the text around them.
func Messages(issues *cel.Issues) string {
	var all []string
	for _, e := range issues.Errors() {
		all = append(all, fmt.Sprintf("%d:%d: %s", e.Location.Line(), e.Location.Column()+1, e.Message))
	}
	return strings.Join(all, "; ")
}
