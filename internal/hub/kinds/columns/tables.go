package columns

import (
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Tables makes tables. It computes the ages in them by its clock.
type Tables struct {
	now      func() time.Time
	printers map[schema.GroupKind]printer
}

// New returns the Tables of all kinds. now is the clock.
func New(now func() time.Time) Tables { return Tables{now: now, printers: builtinPrinters()} }

// Convertor returns the tables of a built-in kind, for objects of the Hub version.
func (t Tables) Convertor(kind schema.GroupKind) rest.TableConvertor {
	return table{t.printers[kind], t.now}
}

// Scale returns the tables of the scale subresource of any kind.
func (t Tables) Scale() rest.TableConvertor { return table{scalePrinter(), t.now} }

// Created returns the tables of kinds without columns of their own.
func (t Tables) Created() rest.TableConvertor { return table{createdPrinter(), t.now} }

// builtinPrinters returns the printers of the built-in kinds whose tables have more columns than name
// and age.
func builtinPrinters() map[schema.GroupKind]printer {
	all := map[schema.GroupKind]printer{}
	for group, kinds := range map[string]map[string]printer{
		"":                             corePrinters(),
		"admissionregistration.k8s.io": admissionPrinters(),
		"apiextensions.k8s.io":         definitionPrinters(),
		"apiregistration.k8s.io":       apiServicePrinters(),
		"apps":                         appsPrinters(),
		"autoscaling":                  autoscalingPrinters(),
		"batch":                        batchPrinters(),
		"certificates.k8s.io":          certificatePrinters(),
		"coordination.k8s.io":          coordinationPrinters(),
		"discovery.k8s.io":             discoveryPrinters(),
		"flowcontrol.apiserver.k8s.io": flowPrinters(),
		"networking.k8s.io":            networkPrinters(),
		"node.k8s.io":                  nodePrinters(),
		"policy":                       policyPrinters(),
		"rbac.authorization.k8s.io":    rbacPrinters(),
		"resource.k8s.io":              resourcePrinters(),
		"scheduling.k8s.io":            schedulingPrinters(),
		"storage.k8s.io":               storagePrinters(),
	} {
		for kind, p := range kinds {
			all[schema.GroupKind{Group: group, Kind: kind}] = p
		}
	}
	return all
}

func scalePrinter() printer {
	return printed(cols("Name", "Desired#", "Available#", "Age"), func(s *autoscalingv1.Scale, now time.Time) []any {
		return []any{s.Name, int64(s.Spec.Replicas), int64(s.Status.Replicas), age(s.CreationTimestamp, now)}
	})
}
