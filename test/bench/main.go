// Command bench measures Orrery on real parts and prints a table: what, measured, bar, result. Hub, agents and
// kube-apiservers are processes. Locations beyond those are simulated agents that use the agent protocol over
// HTTPS.
//
// A comparison of two systems is measured in one run, in alternating rounds, and is a median. Clients share the
// machine with the measured processes, so a time is valid only for the machine of the run. The run fails when a
// value is worse than its range in bench/ranges.json, and not for missing a bar.
//
// The command must never get an option that makes a number better than a user would find it: the hub and the
// agents run with default settings unless a method says otherwise.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"orrery.dev/orrery/test/support/env"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == bareCommand {
		os.Exit(bareMain(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	if err := run(os.Args[1:], os.Stdout); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
}

// run measures, prints and keeps the results, and compares them with the ranges.
func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	full := fullSize()
	objects := flags.Int("n", full.objects, "objects of the full sync")
	locations := flags.Int("locations", full.locations, "simulated locations that get one object")
	quick := flags.Bool("quick", false, "small numbers: shows that everything can be measured, and nothing of how fast it is")
	small := flags.Bool("small", false, "numbers that take minutes, compared with ranges of their own")
	only := flags.String("only", "", "measure only these, comma-separated: "+strings.Join(stepNames(), ", "))
	dir := flags.String("dir", "bench", "directory of ranges.json and results")
	charts := flags.String("draw", "", "measure nothing, but draw the curves of the committed results into this directory")
	page := flags.String("model", "", "measure nothing, but write the model of larger fleets from the committed results into this page")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *charts != "" {
		return drawCommitted(*dir, *charts)
	}
	if *page != "" {
		return writeModel(*dir, *page)
	}
	size := full
	switch {
	case *quick:
		size = quickSize()
	case *small:
		size = smallSize()
	default:
		size.objects, size.locations = *objects, *locations
	}
	wanted, err := chooseSteps(*only, *quick)
	if err != nil {
		return err
	}
	committed, err := readRanges(*dir)
	if err != nil {
		return err
	}
	ranges := committed.Ranges
	if *small {
		ranges = ranges.small()
	}

	before, err := lookAtMachine()
	if err != nil {
		return err
	}
	if before.busy() {
		fmt.Fprintf(os.Stderr, "The machine is not quiet (%s): times will say little.\n", before)
	}
	report := newReport(size, before)
	failure := env.Main("bench", func(t env.T) { measure(t, size, wanted, report) })
	after, err := lookAtMachine()
	if err != nil {
		return errors.Join(failure, err)
	}
	report.end(after)
	if !*quick {
		report.compare(ranges)
	}
	if err := report.print(out); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	file, err := report.save(*dir)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "results:", file)
	return errors.Join(failure, err, report.worse())
}
