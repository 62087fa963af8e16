// Command provider-views runs package providerviews: with KUBECONFIG, or --kubeconfig, of its slice.
package main

import (
	"flag"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"orrery.dev/orrery/examples/providerviews"
)

func main() {
	name := flag.String("name", "provider", "who it says in a status that it is")
	flag.Parse()
	log := slog.NewTextHandler(os.Stderr, nil)
	ctrl.SetLogger(logr.FromSlogHandler(log))
	if err := run(*name); err != nil {
		slog.New(log).Error("the provider ends", "error", err)
		os.Exit(1)
	}
}

func run(name string) error {
	slice, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := providerviews.New(slice, name, ctrl.Options{})
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
