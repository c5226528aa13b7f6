// Command operator-go is the config-replicator of sdk/go/examples as a process of its own, in the way that kubebuilder lays out a
// project: what the plugin's memory is compared with.
package main

import (
	"flag"
	"os"

	// All ways to sign in to an API server, so that any kubeconfig works.
	_ "k8s.io/client-go/plugin/pkg/client/auth"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

var (
	scheme   = runtime.NewScheme()
	setupLog = ctrl.Log.WithName("setup")
)

func init() {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
}

func main() {
	var metricsAddr, probeAddr, domain string
	var enableLeaderElection bool
	flag.StringVar(&metricsAddr, "metrics-bind-address", "127.0.0.1:0", "The address the metrics endpoint binds to.")
	flag.StringVar(&probeAddr, "health-probe-bind-address", "127.0.0.1:0", "The address the probe endpoint binds to.")
	flag.BoolVar(&enableLeaderElection, "leader-elect", false, "Enable leader election for controller manager.")
	flag.StringVar(&domain, "domain", "config-replicator.example.com", "What the annotations begin with.")
	opts := zap.Options{}
	opts.BindFlags(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&opts)))

	if err := run(metricsAddr, probeAddr, domain, enableLeaderElection); err != nil {
		setupLog.Error(err, "problem running manager")
		os.Exit(1)
	}
}

func run(metricsAddr, probeAddr, domain string, enableLeaderElection bool) error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: metricsAddr},
		HealthProbeBindAddress: probeAddr,
		LeaderElection:         enableLeaderElection,
		LeaderElectionID:       domain,
	})
	if err != nil {
		return err
	}
	reconciler := &ConfigMapReconciler{
		Client:   mgr.GetClient(),
		Recorder: mgr.GetEventRecorder("config-replicator"),
		Domain:   domain,
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		return err
	}
	setupLog.Info("starting manager")
	return mgr.Start(ctrl.SetupSignalHandler())
}
