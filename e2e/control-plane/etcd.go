package main

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// runEtcd starts a single etcd member. It never syncs to disk: its clusters are thrown away, and fsync is what
// makes an empty start slow.
func runEtcd() int {
	flags := flag.NewFlagSet("etcd", flag.ExitOnError)
	dir := flags.String("data-dir", "", "where the database lives")
	client := flags.String("listen-client-url", "", "address for clients, such as http://127.0.0.1:2379")
	peer := flags.String("listen-peer-url", "", "address for peers, such as http://127.0.0.1:2380")
	certificate := flags.String("cert-file", "", "certificate to show to clients")
	key := flags.String("key-file", "", "key of that certificate")
	authority := flags.String("trusted-ca-file", "", "authority that clients must have a certificate from")
	_ = flags.Parse(os.Args[1:])

	clientURL, peerURL, err := twoURLs(*client, *peer)
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 2
	}
	config := embed.NewConfig()
	config.Name = "default"
	config.Dir = *dir
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{clientURL}, []url.URL{clientURL}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peerURL}, []url.URL{peerURL}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.ClientTLSInfo.CertFile, config.ClientTLSInfo.KeyFile = *certificate, *key
	config.ClientTLSInfo.TrustedCAFile, config.ClientTLSInfo.ClientCertAuth = *authority, *authority != ""
	config.TickMs, config.ElectionMs = 10, 100
	config.UnsafeNoFsync = true
	config.QuotaBackendBytes = 8 << 30
	config.LogLevel = "warn"
	// Embedded, the limit is zero, and then each and every request is logged as a slow one.
	config.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration

	server, err := embed.StartEtcd(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd: cannot start:", err)
		return 1
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		fmt.Fprintln(os.Stderr, "etcd: not ready after 30 s")
		return 1
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-stop:
		return 0
	case err := <-server.Err():
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	}
}

func twoURLs(client, peer string) (url.URL, url.URL, error) {
	clientURL, err := url.Parse(client)
	if err != nil {
		return url.URL{}, url.URL{}, fmt.Errorf("--listen-client-url %q: %w", client, err)
	}
	peerURL, err := url.Parse(peer)
	if err != nil {
		return url.URL{}, url.URL{}, fmt.Errorf("--listen-peer-url %q: %w", peer, err)
	}
	return *clientURL, *peerURL, nil
}
