package main

import (
	"fmt"
	"os"
)

const (
	etcdName              = "etcd"
	apiServerName         = "kube-apiserver"
	controllerManagerName = "kube-controller-manager"
	schedulerName         = "kube-scheduler"
	kwokName              = "kwok"
)

// component is one process of the cluster: its flags, and the address that answers once it works.
type component struct {
	name  string
	flags []string
	ready string
}

// Clients wait on the API server, not on their own rate limit: with the default of 20 requests a second a thousand
// pods take minutes.
const (
	clientRequestsPerSecond = 2000
	clientRequestsBurst     = 4000
)

// openPaths may be read without a token; controller-manager and scheduler would otherwise ask the API server who is
// calling, which needs kubeconfigs and rights that only monitoring would use.
const openPaths = "/healthz,/readyz,/livez,/metrics"

func etcdComponent(home home, ports ports) component {
	return component{etcdName, []string{
		"--data-dir=" + home.in("etcd"),
		"--listen-client-url=" + address(ports.etcd),
		"--listen-peer-url=" + fmt.Sprintf("http://127.0.0.1:%d", ports.etcdPeer),
		"--cert-file=" + home.certificate(servingCertificate),
		"--key-file=" + home.privateKey(servingCertificate),
		"--trusted-ca-file=" + home.certificate(certificateAuthority),
	}, address(ports.etcd) + "/health"}
}

func apiServerComponent(home home, ports ports) component {
	return component{apiServerName, append(serving(home, ports.apiServer),
		"--etcd-servers="+address(ports.etcd),
		"--etcd-cafile="+home.certificate(certificateAuthority),
		"--etcd-certfile="+home.certificate(supervisorCertificate),
		"--etcd-keyfile="+home.privateKey(supervisorCertificate),
		// Without an address to advertise it looks for a default route, which a machine without network lacks. Nobody
		// reads the address: the reconciler that would publish it refuses loopback and is off.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--client-ca-file="+home.certificate(certificateAuthority),
		"--token-auth-file="+home.tokens(),
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+home.privateKey(serviceAccountKey),
		"--service-account-signing-key-file="+home.privateKey(serviceAccountKey),
		"--max-requests-inflight=2000",
		"--max-mutating-requests-inflight=1000",
		"--profiling=false",
	), address(ports.apiServer) + "/readyz"}
}

func controllerManagerComponent(home home, ports ports) component {
	return component{controllerManagerName, append(serving(home, ports.controllerManager),
		"--kubeconfig="+home.kubeconfig(controllerManagerName),
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--authentication-skip-lookup=true",
		"--authorization-always-allow-paths="+openPaths,
		"--service-account-private-key-file="+home.privateKey(serviceAccountKey),
		"--root-ca-file="+home.certificate(certificateAuthority),
		"--cluster-signing-cert-file="+home.certificate(certificateAuthority),
		"--cluster-signing-key-file="+home.privateKey(certificateAuthority),
		fmt.Sprintf("--kube-api-qps=%d", clientRequestsPerSecond),
		fmt.Sprintf("--kube-api-burst=%d", clientRequestsBurst),
		"--concurrent-deployment-syncs=20",
		"--concurrent-replicaset-syncs=20",
		"--concurrent-gc-syncs=50",
		"--profiling=false",
	), address(ports.controllerManager) + "/healthz"}
}

// schedulerComponent is ready by /readyz, which unlike its /healthz also means that its caches are filled.
func schedulerComponent(home home, ports ports) component {
	return component{schedulerName, append(serving(home, ports.scheduler),
		"--config="+home.schedulerConfig(),
		"--authentication-skip-lookup=true",
		"--authorization-always-allow-paths="+openPaths,
	), address(ports.scheduler) + "/readyz"}
}

func kwokComponent(home home, ports ports) component {
	return component{kwokName, []string{
		"--kubeconfig=" + home.kubeconfig(kwokName),
		"--config=" + home.kwokConfig(),
		"--node-ip=10.0.0.1",
		fmt.Sprintf("--server-address=127.0.0.1:%d", ports.kwok),
		"--tls-cert-file=" + home.certificate(servingCertificate),
		"--tls-private-key-file=" + home.privateKey(servingCertificate),
	}, address(ports.kwok) + "/healthz"}
}

// serving are the flags that the three Kubernetes components share.
func serving(home home, port int) []string {
	return []string{
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + home.certificate(servingCertificate),
		"--tls-private-key-file=" + home.privateKey(servingCertificate),
	}
}

func address(port int) string { return fmt.Sprintf("https://127.0.0.1:%d", port) }

func (h home) schedulerConfig() string { return h.in("scheduler.yaml") }

func writeSchedulerConfig(home home) error {
	text := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: %q
  qps: %d
  burst: %d
`, home.kubeconfig(schedulerName), clientRequestsPerSecond, clientRequestsBurst)
	if err := os.WriteFile(home.schedulerConfig(), []byte(text), 0o600); err != nil {
		return fmt.Errorf("writing the scheduler's configuration: %w", err)
	}
	return nil
}
