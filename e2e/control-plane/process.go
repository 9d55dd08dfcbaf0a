package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// process is a running component. It lives no longer than the supervisor: it watches its stdin, a pipe that the
// kernel closes when the supervisor is gone, however that happened.
type process struct {
	name    string
	log     string
	command *exec.Cmd
	// stdin is never written to: that it stays open is what keeps the component alive.
	stdin io.Closer
	gone  chan struct{}
}

// startProcess runs a component of this very binary. When it ends, for whatever reason, it is sent to died, which
// must have room for every process.
func startProcess(home home, component component, died chan<- *process) (*process, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the binary of %s: %w", component.name, err)
	}
	log, err := os.Create(home.log(component.name))
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", component.name, err)
	}
	defer log.Close()

	command := exec.Command(binary, append([]string{component.name}, component.flags...)...)
	command.Dir = string(home)
	command.Stdout, command.Stderr = log, log
	// kwok reads ~/.kwok/kwok.yaml before the configuration it is given, and a proxy in the environment or a
	// developer's own stages must not leak into a test.
	command.Env = append(os.Environ(), dieWithStdin+"=1", "HOME="+string(home), "KWOK_WORKDIR="+string(home), "NO_PROXY=*")
	// A group of its own: Ctrl-C in a terminal is for the supervisor alone, or components would seem to die by themselves.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe to %s: %w", component.name, err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", component.name, err)
	}
	started := &process{component.name, home.log(component.name), command, stdin, make(chan struct{})}
	go func() {
		_ = command.Wait()
		close(started.gone)
		died <- started
	}()
	return started, nil
}

// kill does not wait for a graceful end, which takes seconds while watches are open: nothing of a cluster is kept.
func (p *process) kill() { _ = p.command.Process.Kill() }

// death is the end of a component that should have gone on.
type death struct {
	process *process
	tail    string
}

func deathOf(process *process) *death { return &death{process, tail(process.log)} }

func (d *death) Error() string {
	return fmt.Sprintf("%s died (%s); the end of its log:\n%s", d.process.name, d.process.command.ProcessState, d.tail)
}

// isForWantOfPort tells whether somebody else took the port between our choosing and the component's binding.
func (d *death) isForWantOfPort() bool { return strings.Contains(d.tail, "address already in use") }

const tailLines = 20

// tail gives the last lines of a log, cut to a sane width: some components log whole configurations in one line.
func tail(path string) string {
	const widest = 500
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprintf("  (no log: %v)", err)
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return "  (it is empty)"
	}
	lines := bytes.Split(text, []byte("\n"))
	lines = lines[max(0, len(lines)-tailLines):]
	var out strings.Builder
	for i, line := range lines {
		if i > 0 {
			out.WriteByte('\n')
		}
		out.WriteString("  ")
		out.Write(line[:min(len(line), widest)])
	}
	return out.String()
}
