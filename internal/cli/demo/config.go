package demo

import (
	"fmt"
	"io"
)

const (
	minLocations = 2
	maxLocations = 20
)

// Config configures a demo.
type Config struct {
	// Locations is the number of locations.
	Locations int
	// Kubeconfigs are files of clusters for the first locations; the other locations are simulated.
	Kubeconfigs []string
	// Once ends the demo after its last step. Otherwise everything runs until the context ends.
	Once bool
	// DataDir is the directory for all files of the demo. It must be empty or not exist, and is
	// kept. If DataDir is empty, the demo uses a temporary directory and removes it.
	DataDir string
	// Program is the name by which the user calls the command line.
	Program string
	// Out receives the text of the demo; Colour allows escape sequences for colours.
	Out    io.Writer
	Colour bool
}

// Validate returns an error if the configuration is invalid.
func (c Config) Validate() error {
	if c.Locations < minLocations || c.Locations > maxLocations {
		return fmt.Errorf("%d locations: want %d to %d", c.Locations, minLocations, maxLocations)
	}
	if len(c.Kubeconfigs) > c.Locations {
		return fmt.Errorf("%d kubeconfigs for %d locations", len(c.Kubeconfigs), c.Locations)
	}
	return nil
}
