package cli

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// viewFlags select the API of a kubeconfig: the space itself, the reports view of its locations, or
// the view of an API provider.
type viewFlags struct {
	reports  bool
	location string
	// export is the name of an APIExport, slice a view and a value as VIEW:VALUE, and consumer the
	// only consumer space to show.
	export, slice, consumer string
}

func (v *viewFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&v.reports, "reports", false, "for what locations report about the space, to read")
	flags.StringVar(&v.location, "location", "", "with --reports: of this location alone, by the names that objects have there (default all)")
	flags.StringVar(&v.export, "export", "", "for what this APIExport of the space shows of its consumers")
	flags.StringVar(&v.slice, "slice", "", "for a slice, as VIEW:VALUE by an APIExportView of the space; VIEW: is the rest")
	flags.StringVar(&v.consumer, "consumer", "", "with --export or --slice: of this space alone, by the names that objects have there (default all)")
}

func (v *viewFlags) check(cmd *cobra.Command) error {
	kinds := 0
	for _, set := range []bool{v.reports, v.export != "", v.slice != ""} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return badUsage(cmd, "--reports, --export and --slice exclude each other")
	case v.location != "" && !v.reports:
		return badUsage(cmd, "--location needs --reports")
	case v.location != "" && key.ValidateName(v.location) != nil:
		return badUsage(cmd, "--location: %v", key.ValidateName(v.location))
	case v.consumer != "" && v.export == "" && v.slice == "":
		return badUsage(cmd, "--consumer needs --export or --slice")
	case v.consumer != "" && key.ValidateName(v.consumer) != nil:
		return badUsage(cmd, "--consumer: %v", key.ValidateName(v.consumer))
	case v.export != "" && len(validation.IsDNS1123Subdomain(v.export)) > 0:
		return badUsage(cmd, "--export %q: want the name of an APIExport", v.export)
	}
	view, value, ok := strings.Cut(v.slice, ":")
	if v.slice != "" && (!ok || len(validation.IsDNS1123Subdomain(view)) > 0 || len(validation.IsValidLabelValue(value)) > 0) {
		return badUsage(cmd, "--slice %q: want VIEW:VALUE, the name of an APIExportView and a value; VIEW: is the rest", v.slice)
	}
	return nil
}

// root returns the API of space s that the flags select.
func (v *viewFlags) root(s key.Space) route.Root {
	consumer := cmp.Or(key.Space(v.consumer), key.AllSpaces)
	switch {
	case v.reports:
		return route.Reported(s, cmp.Or(key.Location(v.location), key.AllLocations))
	case v.export != "":
		return route.ExportViewRoot(key.ExportView{Space: s, Name: v.export}, consumer)
	case v.slice != "":
		view, value, _ := strings.Cut(v.slice, ":")
		return route.ExportViewRoot(key.ExportView{Space: s, Name: view, View: true, Value: value}, consumer)
	}
	return route.Space(s)
}
