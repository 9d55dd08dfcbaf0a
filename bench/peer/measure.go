package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"
)

const referenceModule = "sigs.k8s.io/karpenter"

// settings are how a workload is measured.
type settings struct {
	parallelism []int
	// Zero lets the first run decide.
	runs  int
	limit time.Duration
	// No further degree of parallelism is tried once the tries have taken this long together.
	tries time.Duration
}

// report is the answer file.
type report struct {
	Workload         string  `json:"workload"`
	SHA256           string  `json:"sha256"`
	Reference        string  `json:"reference"`
	PreferencePolicy string  `json:"preferencePolicy"`
	MinValuesPolicy  string  `json:"minValuesPolicy"`
	Pods             int     `json:"pods"`
	LoadSeconds      float64 `json:"loadSeconds"`
	LowerSeconds     float64 `json:"lowerSeconds"`
	CapSeconds       float64 `json:"capSeconds"`
	// What follows is of the best degree of parallelism: whether its time ran out, and its runs.
	Parallelism int       `json:"parallelism"`
	IsCapped    bool      `json:"capped"`
	Seconds     []float64 `json:"seconds"`
	PeakMB      float64   `json:"peakMB"`
	// All runs in the order in which they were made.
	Runs []run `json:"runs"`
	Plan *plan `json:"plan"`

	best run
}

// measureFile solves a file as often as it takes and writes the answer.
func measureFile(file, answer string, chosen settings, out io.Writer) error {
	started := time.Now()
	parsed, sum, err := readWorkload(file)
	if err != nil {
		return err
	}
	written := &report{
		Workload:         parsed.Name,
		SHA256:           sum,
		Reference:        referenceVersion(),
		PreferencePolicy: parsed.Policy.Preferences,
		MinValuesPolicy:  parsed.Policy.MinValues,
		Pods:             len(parsed.Pods),
		LoadSeconds:      time.Since(started).Seconds(),
		CapSeconds:       chosen.limit.Seconds(),
	}
	fmt.Fprintf(out, "%s sha256 %s\n", parsed.Name, sum)
	started = time.Now()
	built, err := newWorld(parsed)
	if err != nil {
		return fmt.Errorf("building %s: %w", file, err)
	}
	written.LowerSeconds = time.Since(started).Seconds()
	kept := &keeper{report: written, path: answer, out: out}
	if err := kept.measure(built, chosen); err != nil {
		return err
	}
	return kept.write()
}

// keeper holds the report, which a watchdog may have to write while a run is still busy.
type keeper struct {
	mutex  sync.Mutex
	report *report
	path   string
	out    io.Writer
}

// measure tries each degree of parallelism once, as far as time allows, and repeats the fastest. The first try counts as a
// run.
func (k *keeper) measure(w *world, chosen settings) error {
	spent := 0.0
	for _, workers := range chosen.parallelism {
		if spent >= chosen.tries.Seconds() {
			break
		}
		if err := k.once(w, workers, chosen.limit); err != nil {
			return err
		}
		spent += k.report.Runs[len(k.report.Runs)-1].Seconds
	}
	best := k.report.best
	for made := 1; !best.IsCapped && made < runsFor(chosen, best.Seconds); made++ {
		if err := k.once(w, best.Parallelism, chosen.limit); err != nil {
			return err
		}
	}
	return nil
}

func isFaster(a, b run) bool {
	if a.IsCapped != b.IsCapped {
		return b.IsCapped
	}
	return a.Seconds < b.Seconds
}

func runsFor(chosen settings, seconds float64) int {
	switch {
	case chosen.runs > 0:
		return chosen.runs
	case seconds < 10:
		return 5
	case seconds < 60:
		return 3
	default:
		return 1
	}
}

// once makes one run and takes it into the report. The plan of the last run at the best degree is kept.
func (k *keeper) once(w *world, workers int, limit time.Duration) error {
	done, answer, err := w.solve(workers, limit, func() { k.giveUp(workers, limit) })
	if err != nil {
		return fmt.Errorf("%d workers: %w", workers, err)
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.report.take(done, answer)
	return nil
}

func (r *report) take(done run, answer *plan) {
	isFirst := len(r.Runs) == 0
	r.Runs = append(r.Runs, done)
	isBetter := isFirst || isFaster(done, r.best)
	if done.Parallelism != r.best.Parallelism {
		if !isBetter {
			return
		}
		r.Seconds, r.PeakMB = nil, 0
	}
	if isBetter {
		r.best = done
	}
	r.Parallelism, r.IsCapped, r.Plan = done.Parallelism, done.IsCapped, answer
	r.Seconds = append(r.Seconds, done.Seconds)
	r.PeakMB = max(r.PeakMB, done.PeakMB)
}

// giveUp ends the process in the middle of a run, with a report of that.
func (k *keeper) giveUp(workers int, limit time.Duration) {
	k.mutex.Lock()
	k.report.take(run{Parallelism: workers, Seconds: limit.Seconds(), IsCapped: true}, nil)
	if err := k.write(); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (k *keeper) write() error {
	if err := writeAnswer(k.path, k.report); err != nil {
		return err
	}
	fmt.Fprintln(k.out, k.report.summary())
	return nil
}

// writeAnswer puts an answer in its place in one step, so that a reader never sees half of it.
func writeAnswer(path string, answer any) error {
	partial, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(partial.Name()) }()
	encoder := json.NewEncoder(partial)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(answer); err != nil {
		return err
	}
	if err := errors.Join(partial.Chmod(0o644), partial.Close()); err != nil {
		return err
	}
	return os.Rename(partial.Name(), path)
}

func (r *report) summary() string {
	text := fmt.Sprintf("%s parallelism %d seconds %.3f capped %t peakMB %.1f",
		r.Workload, r.Parallelism, r.Seconds, r.IsCapped, r.PeakMB)
	if r.Plan == nil {
		return text
	}
	return text + fmt.Sprintf(" placed %d of %d claims %d", len(r.Plan.Placements), r.Pods, len(r.Plan.Claims))
}

// referenceVersion is what was really linked, not what somebody remembers.
func referenceVersion() string {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, module := range info.Deps {
			if module.Path == referenceModule {
				return module.Path + " " + module.Version
			}
		}
	}
	return referenceModule
}
