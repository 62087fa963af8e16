// Command provider runs package provider, or with --views package providerviews: with
// KUBECONFIG, or --kubeconfig, of its slice.
package main

import (
	"flag"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"orrery.dev/orrery/examples/provider"
	"orrery.dev/orrery/examples/providerviews"
)

func main() {
	name := flag.String("name", "provider", "name of the provider in the status of clusters")
	withViews := flag.Bool("views", false, "use package views")
	flag.Parse()
	newManager := provider.New
	if *withViews {
		newManager = providerviews.New
	}
	log := slog.NewTextHandler(os.Stderr, nil)
	ctrl.SetLogger(logr.FromSlogHandler(log))
	if err := run(newManager, *name); err != nil {
		slog.New(log).Error("the provider failed", "error", err)
		os.Exit(1)
	}
}

func run(newManager func(*rest.Config, string, ctrl.Options) (ctrl.Manager, error), name string) error {
	slice, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := newManager(slice, name, ctrl.Options{})
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
