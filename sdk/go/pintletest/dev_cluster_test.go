//go:build dev_cluster

// StartDev with a real pintle: run by the long tier, as `go test -tags dev_cluster -run TestDev ./pintletest`. PLUGIN names a component.

package pintletest_test

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"pintle.dev/sdk/pintletest"
)

func TestDevRunsAControllerOnAClusterOfTheTest(t *testing.T) {
	var process int
	t.Run("cluster", func(t *testing.T) {
		options := pintletest.DevOptions{Plugins: []string{os.Getenv("PLUGIN")}, Flags: []string{"--controllers=namespace", "--nodes=0"}}
		cluster := pintletest.StartDev(t, options)
		pid, _ := cluster.Ready["pid"].(float64)
		process = int(pid)
		cluster.Apply(t, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "team"}})
		isThere := func(object map[string]any) bool { return object != nil }
		cluster.Wait(t, "v1/ServiceAccount", "team", "default", time.Minute, isThere)
		cluster.Delete(t, "v1/Namespace", "", "team")
		cluster.Wait(t, "v1/Namespace", "", "team", time.Minute, func(object map[string]any) bool { return object == nil })
		if account := cluster.Get(t, "v1/ServiceAccount", "team", "default"); account != nil {
			t.Errorf("it should be gone: %v", account)
		}
		pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"}}
		path := "/api/v1/namespaces/default/pods/p?fieldManager=test"
		_, err := cluster.Request(http.MethodPatch, path, pod, "application/apply-patch+yaml")
		var refused *pintletest.APIError
		if !errors.As(err, &refused) || refused.Code != http.StatusUnprocessableEntity ||
			!strings.HasPrefix(refused.Message, `Pod "p" is invalid: spec.containers: Required value`) {
			t.Errorf("%v", err)
		}
		if _, err := os.Stat(cluster.Kubeconfig); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Kill(process, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d should have ended with its test: %v", process, err)
	}
}
