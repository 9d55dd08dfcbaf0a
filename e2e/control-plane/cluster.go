package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

const (
	startLimit    = 60 * time.Second
	startAttempts = 5
)

// cluster is a running control plane.
type cluster struct {
	home      home
	ports     ports
	probe     *prober
	processes []*process
	died      chan *process
}

// ports are those of 127.0.0.1 that a cluster listens on; nothing of it listens anywhere else.
type ports struct{ apiServer, etcd, etcdPeer, controllerManager, scheduler, kwok int }

func (c *cluster) server() string { return address(c.ports.apiServer) }

// startCluster returns when everything answers and pods can be created. Ports are chosen before they are bound, so
// somebody may be faster; then the whole start is repeated with others.
func startCluster(ctx context.Context, options options) (*cluster, error) {
	limited, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for attempt := 1; ; attempt++ {
		starting := &cluster{home: options.home, died: make(chan *process, 5)}
		err := starting.start(limited, options)
		if err == nil {
			return starting, nil
		}
		starting.kill()
		var dead *death
		if !errors.As(err, &dead) || !dead.isForWantOfPort() || attempt == startAttempts {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "control-plane serve: a port of %s was taken meanwhile, trying others\n", dead.process.name)
		if err := options.home.wipe(); err != nil {
			return nil, err
		}
	}
}

func (c *cluster) start(ctx context.Context, options options) error {
	var err error
	if c.ports, err = choosePorts(options.port); err != nil {
		return err
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	if c.probe, err = newProber(c.home); err != nil {
		return err
	}
	// Each waits for the one before: a component that does not find its server backs off and is late.
	stages := [][]component{
		{etcdComponent(c.home, c.ports)},
		{apiServerComponent(c.home, c.ports)},
		{controllerManagerComponent(c.home, c.ports), schedulerComponent(c.home, c.ports)},
	}
	if options.kwok {
		last := len(stages) - 1
		stages[last] = append(stages[last], kwokComponent(c.home, c.ports))
	}
	for _, stage := range stages {
		if err := c.startAll(ctx, stage, options); err != nil {
			return err
		}
	}
	// The API server refuses pods of a namespace until the controller-manager has made its service account.
	account := c.server() + "/api/v1/namespaces/default/serviceaccounts/default"
	return c.await(ctx, controllerManagerName, account)
}

// writeFiles puts everything into the directory that components read.
func (c *cluster) writeFiles() error {
	if err := os.MkdirAll(c.home.in("logs"), 0o700); err != nil {
		return fmt.Errorf("creating the directory for logs: %w", err)
	}
	if err := writeCertificates(c.home); err != nil {
		return err
	}
	if err := writeCredentials(c.home, c.server()); err != nil {
		return err
	}
	if err := writeSchedulerConfig(c.home); err != nil {
		return err
	}
	return writeKwokConfig(c.home)
}

func (c *cluster) startAll(ctx context.Context, components []component, options options) error {
	for _, component := range components {
		if extra := options.extra[component.name]; extra != nil {
			component.flags = append(component.flags, *extra...)
		}
		started, err := startProcess(c.home, component, c.died)
		if err != nil {
			return err
		}
		c.processes = append(c.processes, started)
	}
	for _, component := range components {
		if err := c.await(ctx, component.name, component.ready); err != nil {
			return err
		}
	}
	return nil
}

// await asks until the address answers, a component dies, or time is up.
func (c *cluster) await(ctx context.Context, name, url string) error {
	const pause = 20 * time.Millisecond
	for {
		refusal := c.probe.ask(ctx, url)
		if refusal == nil {
			return nil
		}
		select {
		case dead := <-c.died:
			return deathOf(dead)
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready %s after the start: %s: %v; the end of its log:\n%s",
				name, startLimit, url, refusal, tail(c.home.log(name)))
		case <-time.After(pause):
		}
	}
}

// kill ends all components and returns when they are gone, so that the directory can be removed under no one's feet.
func (c *cluster) kill() {
	for _, process := range c.processes {
		process.kill()
	}
	for _, process := range c.processes {
		<-process.gone
	}
}

// choosePorts asks the kernel for free ports, holding all of them until the last is known so that none comes twice.
func choosePorts(apiServer int) (ports, error) {
	var chosen ports
	wanted := []struct {
		into  *int
		fixed int
	}{
		{&chosen.apiServer, apiServer},
		{&chosen.etcd, 0},
		{&chosen.etcdPeer, 0},
		{&chosen.controllerManager, 0},
		{&chosen.scheduler, 0},
		{&chosen.kwok, 0},
	}
	for _, want := range wanted {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", want.fixed))
		if err != nil {
			return ports{}, fmt.Errorf("looking for a free port on 127.0.0.1: %w", err)
		}
		defer listener.Close()
		*want.into = listener.Addr().(*net.TCPAddr).Port
	}
	return chosen, nil
}
