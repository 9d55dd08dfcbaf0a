// Command control-plane is a whole Kubernetes control plane in one binary, for playgrounds and tests.
//
// Each component is a sub-command under its usual name (etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, kubectl, kwok) with its usual flags; calling the binary through a link of that name works too.
// On top of them stand three commands of our own:
//
//	control-plane serve --dir DIR   start a cluster, print one line of JSON when it is ready, end when stdin closes
//	control-plane up    --dir DIR   the same in the background, for people
//	control-plane down  --dir DIR   end what `up` started
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	_ "time/tzdata" // CronJobs with a time zone work on machines without zone files.

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// dieWithStdin is the environment variable that ties a component to the process that started it: its stdin is
// a pipe whose other end that process holds, so even a killed parent takes its children along.
const dieWithStdin = "CONTROL_PLANE_DIE_WITH_STDIN"

var commands = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubectl":                 runKubectl,
	"kwok":                    runKwok,
	"serve":                   runServe,
	"up":                      runUp,
	"down":                    runDown,
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, known := commands[name]; !known && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = append([]string{name}, os.Args[2:]...)
	}
	run, known := commands[name]
	if !known {
		fmt.Fprintf(os.Stderr, "control-plane: unknown command %q; use serve, up, down or the name of a component\n", name)
		os.Exit(2)
	}
	if os.Getenv(dieWithStdin) != "" {
		os.Unsetenv(dieWithStdin)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
	}
	os.Exit(run())
}

func runKubectl() int {
	var command *cobra.Command = kubectl.NewDefaultKubectlCommand()
	if err := cli.RunNoErrOutput(command); err != nil {
		kubectlutil.CheckErr(err)
		return 1
	}
	return 0
}
