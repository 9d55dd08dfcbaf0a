package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// runUp starts a cluster that outlives the terminal, for people.
func runUp() int { return forPeople("up", up) }

// runDown ends what `up` started and removes it.
func runDown() int { return forPeople("down", down) }

func forPeople(name string, run func(options) error) int {
	options, err := parseOptions(name, os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = run(options)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "control-plane %s: %v\n", name, err)
		return 1
	}
	return 0
}

func up(options options) error {
	pid, err := options.home.supervisor()
	if err != nil {
		return err
	}
	if pid != 0 {
		fmt.Fprintf(os.Stderr, "the cluster in %s is running already (pid %d)\n", options.home, pid)
	} else if err := detach(options.home); err != nil {
		return err
	}
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding our own binary: %w", err)
	}
	fmt.Printf("export KUBECONFIG=%q\n", options.home.kubeconfig("admin"))
	// A machine without kubectl has one beside us.
	fmt.Printf("export PATH=\"$PATH\":%q\n", filepath.Join(filepath.Dir(binary), "bin"))
	return nil
}

// detach starts `serve` with the arguments of `up`, free of the terminal, and waits for its line on stdout. The end
// of that pipe without a line is the end of `serve`; its own limit bounds the wait.
func detach(home home) error {
	if err := home.prepare(); err != nil {
		return err
	}
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding our own binary: %w", err)
	}
	log, err := os.Create(home.in(logFile))
	if err != nil {
		return fmt.Errorf("opening the supervisor's log: %w", err)
	}
	defer log.Close()

	serve := exec.Command(binary, append([]string{"serve", "--ignore-stdin"}, os.Args[1:]...)...)
	serve.Stderr = log
	serve.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdout, err := serve.StdoutPipe()
	if err != nil {
		return fmt.Errorf("making a pipe to the supervisor: %w", err)
	}
	if err := serve.Start(); err != nil {
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		_ = serve.Wait()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the cluster did not start:\n%s", tail(home.in(logFile)))
		}
		return fmt.Errorf("waiting for the cluster: %w", err)
	}
	return nil
}

func down(options options) error {
	home := options.home
	pid, err := home.supervisor()
	if err != nil {
		return err
	}
	if pid == 0 {
		fmt.Fprintf(os.Stderr, "no cluster is running in %s\n", home)
		if !home.isOurs() {
			return nil
		}
	} else if err := end(home, pid); err != nil {
		return err
	}
	if err := os.RemoveAll(string(home)); err != nil {
		return fmt.Errorf("removing the cluster's directory: %w", err)
	}
	return nil
}

// end asks the supervisor to stop and insists after a while. Its children follow it either way.
func end(home home, pid int) error {
	const patience = 5 * time.Second
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("sending %v to the supervisor (pid %d): %w", signal, pid, err)
		}
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if pid, err := home.supervisor(); err == nil && pid == 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("the supervisor (pid %d) does not end", pid)
}
