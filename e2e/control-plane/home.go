package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// home is the absolute path of one cluster's directory. Its pid file carries a lock while a supervisor lives, which
// tells a running cluster from a dead one even after the system has given the pid to somebody else. The pid file
// also marks the directory as ours: no other directory is ever emptied or removed.
type home string

const (
	pidFile = "serve.pid"
	logFile = "serve.log"
)

var errRunning = errors.New("a cluster is running in it")

func (h home) in(names ...string) string {
	return filepath.Join(append([]string{string(h)}, names...)...)
}

func (h home) kubeconfig(user string) string { return h.in(user + ".kubeconfig") }
func (h home) log(component string) string   { return h.in("logs", component+".log") }

// claim is the right to run a cluster in a directory.
type claim struct{ file *os.File }

func (c claim) release() { c.file.Close() }

// claim takes the directory for this process and empties it. It fails with errRunning if another supervisor has it.
func (h home) claim() (claim, error) {
	if err := h.prepare(); err != nil {
		return claim{}, err
	}
	taken, err := h.lock()
	if err != nil {
		return claim{}, err
	}
	if err := h.wipe(); err != nil {
		taken.release()
		return claim{}, err
	}
	if err := os.WriteFile(h.in(pidFile), fmt.Appendln(nil, os.Getpid()), 0o600); err != nil {
		taken.release()
		return claim{}, fmt.Errorf("noting the pid: %w", err)
	}
	return taken, nil
}

// prepare makes sure that the directory exists and bears our mark. It refuses a directory with anything else in it:
// `--dir` followed by someone's home must not cost them their files.
func (h home) prepare() error {
	if err := os.MkdirAll(string(h), 0o700); err != nil {
		return fmt.Errorf("creating the cluster's directory: %w", err)
	}
	entries, err := os.ReadDir(string(h))
	if err != nil {
		return fmt.Errorf("looking into the cluster's directory: %w", err)
	}
	if len(entries) > 0 && !h.isOurs() {
		return fmt.Errorf("%s is not empty and holds no cluster (it has no %s); choose another directory", h, pidFile)
	}
	if err := os.Chmod(string(h), 0o700); err != nil {
		return fmt.Errorf("closing the cluster's directory to others: %w", err)
	}
	marker, err := os.OpenFile(h.in(pidFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("marking the cluster's directory: %w", err)
	}
	return marker.Close()
}

func (h home) isOurs() bool {
	_, err := os.Stat(h.in(pidFile))
	return err == nil
}

func (h home) lock() (claim, error) {
	file, err := os.OpenFile(h.in(pidFile), os.O_RDWR, 0o600)
	if err != nil {
		return claim{}, fmt.Errorf("opening the pid file: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		file.Close()
		return claim{}, fmt.Errorf("%s: %w", h, errRunning)
	}
	if err != nil {
		file.Close()
		return claim{}, fmt.Errorf("locking %s: %w", h.in(pidFile), err)
	}
	return claim{file}, nil
}

// supervisor tells the pid of the process that runs the cluster, or 0 if none does.
func (h home) supervisor() (int, error) {
	if !h.isOurs() {
		return 0, nil
	}
	free, err := h.lock()
	if err == nil {
		free.release()
		return 0, nil
	}
	if !errors.Is(err, errRunning) {
		return 0, err
	}
	text, err := os.ReadFile(h.in(pidFile))
	if err != nil {
		return 0, fmt.Errorf("reading the supervisor's pid: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("%s holds no pid but %q", h.in(pidFile), text)
	}
	return pid, nil
}

// wipe removes what an earlier cluster left. The log stays because `up` has it open already.
func (h home) wipe() error {
	entries, err := os.ReadDir(string(h))
	if err != nil {
		return fmt.Errorf("looking into the cluster's directory: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() == pidFile || entry.Name() == logFile {
			continue
		}
		if err := os.RemoveAll(h.in(entry.Name())); err != nil {
			return fmt.Errorf("removing what an earlier cluster left: %w", err)
		}
	}
	return nil
}
