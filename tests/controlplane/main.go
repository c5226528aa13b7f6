// Command controlplane is a Kubernetes control plane in one binary, for tests.
//
// The first argument says which part runs (etcd, kube-apiserver, kube-controller-manager, or kubectl
// for machines that have none); the rest goes to that part unchanged. One binary instead of four links the shared code once, which makes the build a third as long.
// `facts` prints what `cargo xtask upstream` compares between versions.
// `guard PROGRAM ARGS` runs anything else under the same promise: it does not outlive the test that
// started it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	holdLifeline()
	part := os.Args[1]
	if part == "guard" {
		os.Exit(guard(os.Args[2:]))
	}
	// Every part reads its flags from os.Args, as if it had been started under its own name.
	os.Args = append([]string{filepath.Join(filepath.Dir(os.Args[0]), part)}, os.Args[2:]...)

	var command *cobra.Command
	switch part {
	case "etcd":
		etcdmain.Main(os.Args)
		return
	case "facts":
		facts()
		return
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = kcm.NewControllerManagerCommand()
	case "kubectl":
		// Its own runner, as kubectl's main has it: errors are printed without a usage text.
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			util.CheckErr(err)
		}
		return
	default:
		usage()
	}
	os.Exit(cli.Run(command))
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: controlplane etcd|kube-apiserver|kube-controller-manager|kubectl [flags]")
	fmt.Fprintln(os.Stderr, "       controlplane facts")
	fmt.Fprintln(os.Stderr, "       controlplane guard PROGRAM [arguments]")
	os.Exit(2)
}
