package main

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
)

// disruptReport is the answer file of a disruption.
type disruptReport struct {
	Workload     string  `json:"workload"`
	SHA256       string  `json:"sha256"`
	Reference    string  `json:"reference"`
	Nodes        int     `json:"nodes"`
	Pods         int     `json:"pods"`
	LoadSeconds  float64 `json:"loadSeconds"`
	LowerSeconds float64 `json:"lowerSeconds"`
	// All methods together, as they were.
	SecondsRaw float64 `json:"secondsRaw"`
	// The same, had single-node consolidation not stopped before its last candidate.
	Seconds float64 `json:"seconds"`
	// Of single-node consolidation, the only method that looks at each candidate by itself.
	Candidates int `json:"candidates"`
	Evaluated  int `json:"evaluated"`
	// Moves that any method found.
	Commands int         `json:"commands"`
	Methods  []methodRun `json:"methods"`
}

// methodRun is what one method of the disruption loop did.
type methodRun struct {
	Method string `json:"method"`
	// Nodes that it could choose from.
	Candidates int `json:"candidates"`
	// From the first look at the cluster to the candidates and budgets.
	GatherSeconds float64 `json:"gatherSeconds"`
	// From the candidates to the commands.
	DecideSeconds float64 `json:"decideSeconds"`
	Simulations   int     `json:"simulations"`
	IsTimedOut    bool    `json:"timedOut"`
	// Moves, each by the nodes that would leave.
	Commands [][]string `json:"commands"`
}

func (m methodRun) seconds() float64 { return m.GatherSeconds + m.DecideSeconds }

// accept stands in for the second look, which waits fifteen seconds and belongs to carrying out, not to deciding.
type accept struct{}

func (accept) Validate(_ context.Context, command disruption.Command, _ time.Duration) (disruption.Command, error) {
	return command, nil
}

// notebook keeps what the reference only ever tells its log: errors that it goes on after, and how far it came.
type notebook struct {
	errors    []error
	isTimeout bool
	// By its own count; zero when it did not run out of time.
	evaluated int
}

func (n *notebook) Init(logr.RuntimeInfo)          {}
func (n *notebook) Enabled(int) bool               { return true }
func (n *notebook) WithValues(...any) logr.LogSink { return n }
func (n *notebook) WithName(string) logr.LogSink   { return n }
func (n *notebook) Error(err error, text string, _ ...any) {
	n.errors = append(n.errors, fmt.Errorf("%s: %w", text, err))
}

func (n *notebook) Info(_ int, _ string, pairs ...any) {
	for at := 0; at+1 < len(pairs); at += 2 {
		switch pairs[at] {
		case "candidates_evaluated":
			n.isTimeout = true
			n.evaluated, _ = pairs[at+1].(int)
		case "last_batch_size":
			n.isTimeout = true
		}
	}
}

// disruptFile decides once about a file and writes the answer. A limit that is not zero takes the place of the time after
// which single-node consolidation gives up.
func disruptFile(file, answer string, limit time.Duration, out io.Writer) error {
	started := time.Now()
	parsed, sum, err := readWorkload(file)
	if err != nil {
		return err
	}
	if len(parsed.Pods) > 0 {
		return fmt.Errorf("reading %s: %d pods wait, and a decision to disrupt is measured where nobody does", file, len(parsed.Pods))
	}
	written := &disruptReport{
		Workload: parsed.Name, SHA256: sum, Reference: referenceVersion(),
		Nodes: len(parsed.Nodes), Pods: len(parsed.BoundPods), LoadSeconds: time.Since(started).Seconds(),
	}
	fmt.Fprintf(out, "%s sha256 %s\n", parsed.Name, sum)
	started = time.Now()
	built, err := newWorld(parsed)
	if err != nil {
		return fmt.Errorf("building %s: %w", file, err)
	}
	written.LowerSeconds = time.Since(started).Seconds()
	if limit > 0 {
		disruption.SingleNodeConsolidationTimeoutDuration = limit
	}
	methods, err := built.disrupt()
	if err != nil {
		return err
	}
	written.take(methods)
	if err := writeAnswer(answer, written); err != nil {
		return err
	}
	fmt.Fprintln(out, written.summary())
	return nil
}

// disrupt goes once through the reference's disruption loop, in its order. The loop would stop after the first method that
// finds something; here all have their turn.
func (w *world) disrupt() ([]methodRun, error) {
	clouds := newProvider(w.file, w.catalog)
	provisioner := provisioning.NewProvisioner(w.reader, silence{}, clouds, w.cluster, w.clock, nil, nil)
	queue := disruption.NewQueue(w.reader, silence{}, w.cluster, w.clock, provisioner)
	shared := disruption.MakeConsolidation(w.clock, w.cluster, w.reader, provisioner, clouds, silence{}, queue)
	loop := []struct {
		name   string
		method disruption.Method
	}{
		{"emptiness", disruption.NewEmptiness(shared, disruption.WithValidator(accept{}))},
		{"static-drift", disruption.NewStaticDrift(w.cluster, provisioner, clouds, silence{})},
		{"drift", disruption.NewDrift(w.reader, w.cluster, provisioner, silence{}, w.clock)},
		{multi, disruption.NewMultiNodeConsolidation(shared, disruption.WithValidator(accept{}))},
		{single, disruption.NewSingleNodeConsolidation(shared, disruption.WithValidator(accept{}))},
	}
	debug.FreeOSMemory()
	var runs []methodRun
	for _, part := range loop {
		run, err := w.disruptBy(part.method, clouds, queue)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		run.Method = part.name
		runs = append(runs, run)
	}
	return runs, nil
}

const (
	multi  = "multi-node"
	single = "single-node"
)

// disruptBy is one turn of the loop.
func (w *world) disruptBy(method disruption.Method, clouds *provider, queue *disruption.Queue) (methodRun, error) {
	notes := &notebook{}
	ctx := log.IntoContext(injection.WithControllerName(w.context(), "disruption"), logr.New(notes))
	started := time.Now()
	candidates, totals, err := disruption.GetCandidatesWithTotals(
		ctx, w.cluster, w.reader, silence{}, w.clock, clouds, method.ShouldDisrupt, method.Class(), queue, nil)
	if err != nil {
		return methodRun{}, fmt.Errorf("gathering candidates: %w", err)
	}
	done := methodRun{Candidates: len(candidates), Commands: [][]string{}}
	if len(candidates) == 0 {
		done.GatherSeconds = time.Since(started).Seconds()
		return done, notes.complaint()
	}
	if setter, ok := method.(disruption.NodePoolTotalsSetter); ok {
		setter.SetNodePoolTotals(totals)
	}
	budgets, err := disruption.BuildDisruptionBudgetMapping(
		ctx, w.cluster, w.clock, w.reader, clouds, silence{}, method.Reason())
	if err != nil {
		return methodRun{}, fmt.Errorf("reading budgets: %w", err)
	}
	done.GatherSeconds = time.Since(started).Seconds()

	asked := clouds.asked
	started = time.Now()
	commands, err := method.ComputeCommands(ctx, budgets, candidates...)
	done.DecideSeconds = time.Since(started).Seconds()
	if err != nil {
		return methodRun{}, err
	}
	done.Simulations = (clouds.asked - asked) / len(w.file.Pools)
	done.IsTimedOut = notes.isTimeout
	for _, command := range commands {
		if command.Decision() != disruption.NoOpDecision {
			done.Commands = append(done.Commands, command.SourceNodeNames())
		}
	}
	return done, notes.check(done)
}

// complaint is the first error that the reference went on after: what it did not look at must not count as looked at.
func (n *notebook) complaint() error {
	if len(n.errors) > 0 {
		return fmt.Errorf("%d errors, the first one: %w", len(n.errors), n.errors[0])
	}
	return nil
}

// check holds our count of simulations against the reference's own count of candidates.
func (n *notebook) check(done methodRun) error {
	if err := n.complaint(); err != nil {
		return err
	}
	if n.isTimeout && done.Simulations == 0 {
		return fmt.Errorf("it gave up before its first candidate")
	}
	if n.evaluated > 0 && n.evaluated != done.Simulations {
		return fmt.Errorf("it says that it evaluated %d candidates, and %d simulations were counted", n.evaluated, done.Simulations)
	}
	return nil
}

// take adds up the methods.
func (r *disruptReport) take(methods []methodRun) {
	r.Methods = methods
	for _, run := range methods {
		r.SecondsRaw += run.seconds()
		r.Commands += len(run.Commands)
		if run.Method != single {
			r.Seconds += run.seconds()
			continue
		}
		r.Candidates, r.Evaluated = run.Candidates, run.Simulations
		r.Seconds += run.GatherSeconds + run.DecideSeconds*scale(run)
	}
}

// scale is how many times longer it would have taken to look at every candidate. It stops early when time runs out, and when
// it finds a move.
func scale(run methodRun) float64 {
	if run.Simulations == 0 {
		return 1
	}
	return float64(run.Candidates) / float64(run.Simulations)
}

func (r *disruptReport) summary() string {
	return fmt.Sprintf("%s secondsRaw %.3f evaluated %d of %d candidates seconds %.3f commands %d",
		r.Workload, r.SecondsRaw, r.Evaluated, r.Candidates, r.Seconds, r.Commands)
}
