// Command peer runs the reference's scheduler, the one of sigs.k8s.io/karpenter, on a workload file of the benchmark, or its
// disruption loop.
//
//	peer solve --workload FILE --parallelism 1,2,5 --runs auto --cap 600s --out FILE.json
//	peer disrupt --workload FILE --out FILE.json
//
// It is one half of the benchmark: the other half solves the same file with our engine, and both answers go before the
// same judge. The format of the file and of the answer is in ../README.md.
//
// What is timed is what the reference does between knowing the cluster and having a plan: NewTopology, NewScheduler and
// Solve. Reading the file, making the catalogue and filling the reference's cluster state come before the clock starts.
// Wherever the harness had a choice, it chose what is faster for the reference: the API reader answers from indexes and
// hands out shared objects, and of several degrees of parallelism the best one counts.
//
//	workload.go   the file: reading, checking, expanding pods from templates
//	catalog.go    instance types and offerings as the reference wants them
//	reader.go     the API server that the scheduler believes it reads from
//	world.go      everything that is ready before the clock starts
//	solve.go      one timed run
//	order.go      the order in which pods were seated
//	plan.go       the answer, in words that a judge can replay
//	measure.go    how often to run, and what is reported
//	memory.go     how much memory a run took
//	provider.go   the cloud that the disruption loop believes it asks
//	disrupt.go    one turn of the disruption loop, timed and counted
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const usage = "usage: peer solve --workload FILE --out FILE [--parallelism N[,N...]] [--runs auto|N] [--cap DURATION] [--tries DURATION]\n" +
	"       peer disrupt --workload FILE --out FILE [--single DURATION]"

func main() {
	// The scheduler explains itself in a log that nobody reads here; writing it would count as its time.
	log.SetLogger(logr.Discard())
	if err := command(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func command(args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "disrupt" {
		return disruptCommand(args[1:], out)
	}
	if len(args) == 0 || args[0] != "solve" {
		return fmt.Errorf("%s", usage)
	}
	flags := flag.NewFlagSet("solve", flag.ContinueOnError)
	file := flags.String("workload", "", "the workload file")
	answer := flags.String("out", "", "where the answer goes")
	parallelism := flags.String("parallelism", "1,2,5", "workers of the scheduler; of several numbers the fastest counts")
	runs := flags.String("runs", "auto", "how many runs: a number, or auto for 5, 3 or 1 by how long the first one took")
	limit := flags.Duration("cap", 600*time.Second, "when to give up on a run")
	tries := flags.Duration("tries", 600*time.Second, "when to stop trying further degrees of parallelism")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if *file == "" || *answer == "" || flags.NArg() > 0 {
		return fmt.Errorf("%s", usage)
	}
	chosen, err := settingsFrom(*parallelism, *runs, *limit, *tries)
	if err != nil {
		return err
	}
	return measureFile(*file, *answer, chosen, out)
}

func disruptCommand(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("disrupt", flag.ContinueOnError)
	file := flags.String("workload", "", "the workload file")
	answer := flags.String("out", "", "where the answer goes")
	limit := flags.Duration("single", 0, "when single-node consolidation gives up; zero leaves that to the reference")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *file == "" || *answer == "" || flags.NArg() > 0 || *limit < 0 {
		return fmt.Errorf("%s", usage)
	}
	return disruptFile(*file, *answer, *limit, out)
}

func settingsFrom(parallelism, runs string, limit, tries time.Duration) (settings, error) {
	chosen := settings{limit: limit, tries: tries}
	for _, text := range strings.Split(parallelism, ",") {
		workers, err := strconv.Atoi(text)
		if err != nil || workers < 1 {
			return settings{}, fmt.Errorf("reading --parallelism: %q is not a positive number", text)
		}
		chosen.parallelism = append(chosen.parallelism, workers)
	}
	if runs != "auto" {
		count, err := strconv.Atoi(runs)
		if err != nil || count < 1 {
			return settings{}, fmt.Errorf("reading --runs: %q is neither auto nor a positive number", runs)
		}
		chosen.runs = count
	}
	if limit <= 0 {
		return settings{}, fmt.Errorf("reading --cap: %s leaves no time", limit)
	}
	if tries <= 0 {
		return settings{}, fmt.Errorf("reading --tries: %s leaves no time", tries)
	}
	return chosen, nil
}
