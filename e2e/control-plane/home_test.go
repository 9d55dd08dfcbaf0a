package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestAForeignDirectoryIsRefusedAndKept(t *testing.T) {
	dir := t.TempDir()
	treasure := filepath.Join(dir, "thesis.tex")
	if err := os.WriteFile(treasure, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := home(dir).claim(); err == nil {
		t.Error("took a directory that holds somebody's files")
	}
	if err := down(options{home: home(dir)}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(treasure); err != nil {
		t.Error(err)
	}
}

func TestADirectoryHasOneSupervisorAndIsEmptiedForTheNext(t *testing.T) {
	dir := home(filepath.Join(t.TempDir(), "cluster"))
	first, err := dir.claim()
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := dir.supervisor(); err != nil || pid != os.Getpid() {
		t.Errorf("the supervisor is %d (%v), want %d", pid, err, os.Getpid())
	}
	if _, err := dir.claim(); !errors.Is(err, errRunning) {
		t.Errorf("a second claim gave %v", err)
	}
	leftover := dir.in("etcd")
	if err := os.Mkdir(leftover, 0o700); err != nil {
		t.Fatal(err)
	}
	first.release()
	if pid, err := dir.supervisor(); err != nil || pid != 0 {
		t.Errorf("the supervisor is %d (%v), want none", pid, err)
	}
	second, err := dir.claim()
	if err != nil {
		t.Fatal(err)
	}
	defer second.release()
	if _, err := os.Stat(leftover); err == nil {
		t.Error("the next cluster finds what the last one left")
	}
}
