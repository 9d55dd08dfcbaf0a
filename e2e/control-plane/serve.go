package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/pflag"
)

// options are what a caller may choose about a cluster.
type options struct {
	home      home
	port      int
	kwok      bool
	ephemeral bool
	// ignoreStdin is for `up`, whose cluster outlives the terminal that started it.
	ignoreStdin bool
	// extra holds further flags by component; a flag given twice counts the last time, so these win over ours.
	extra map[string]*[]string
}

// runServe is the supervisor: it starts a cluster, says once that it is ready, and takes it along when it ends.
func runServe() int {
	options, err := parseOptions("serve", os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "control-plane serve:", err)
		return 2
	}
	if err := serve(options); err != nil {
		fmt.Fprintln(os.Stderr, "control-plane serve:", err)
		return 1
	}
	return 0
}

func parseOptions(name string, arguments []string) (options, error) {
	var chosen options
	var dir string
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	flags.StringVar(&dir, "dir", "", "the cluster's directory: created if missing, emptied if an earlier cluster left it behind")
	flags.IntVar(&chosen.port, "port", 0, "port of the API server on 127.0.0.1; 0 takes a free one")
	flags.BoolVar(&chosen.kwok, "kwok", true, "run kwok as the kubelet of every node")
	flags.BoolVar(&chosen.ephemeral, "ephemeral", false, "remove the directory at the end")
	flags.BoolVar(&chosen.ignoreStdin, "ignore-stdin", false, "do not end when stdin closes")
	chosen.extra = map[string]*[]string{
		apiServerName:         flags.StringArray("apiserver-arg", nil, "further flag for kube-apiserver, may be repeated"),
		controllerManagerName: flags.StringArray("controller-manager-arg", nil, "further flag for kube-controller-manager, may be repeated"),
		schedulerName:         flags.StringArray("scheduler-arg", nil, "further flag for kube-scheduler, may be repeated"),
		kwokName:              flags.StringArray("kwok-arg", nil, "further flag for kwok, may be repeated"),
	}
	if err := flags.Parse(arguments); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if dir == "" {
		return options{}, errors.New("--dir is missing")
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return options{}, fmt.Errorf("--dir %q: %w", dir, err)
	}
	chosen.home = home(absolute)
	return chosen, nil
}

func serve(options options) error {
	claim, err := options.home.claim()
	if err != nil {
		return err
	}
	defer claim.release()
	if options.ephemeral {
		defer os.RemoveAll(string(options.home))
	}
	ctx, cancel := untilTold(options)
	defer cancel()

	running, err := startCluster(ctx, options)
	if err != nil {
		if ctx.Err() != nil {
			return nil // Told to end while starting: whatever failed then is no news.
		}
		return err
	}
	defer running.kill()
	if err := announce(running); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case dead := <-running.died:
		return deathOf(dead)
	}
}

// untilTold gives a context that ends with a signal or, so that no owner can leave a cluster behind, with stdin:
// the kernel closes the pipe of an owner that was killed.
func untilTold(options options) (context.Context, context.CancelFunc) {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if !options.ignoreStdin {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	return ctx, cancel
}

// announce writes the one line that callers wait for. Nothing else may ever go to stdout.
func announce(running *cluster) error {
	line, err := json.Marshal(map[string]string{
		"kubeconfig": running.home.kubeconfig("admin"),
		"server":     running.server(),
		"dir":        string(running.home),
	})
	if err != nil {
		return fmt.Errorf("describing the cluster: %w", err)
	}
	if _, err := fmt.Println(string(line)); err != nil {
		return fmt.Errorf("announcing the cluster on stdout: %w", err)
	}
	return nil
}
