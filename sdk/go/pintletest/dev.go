package pintletest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// DevOptions are the options of [StartDev].
type DevOptions struct {
	// Plugins are folders, which are built, or components.
	Plugins []string
	// Flags are more flags of pintle dev, such as --controllers=-deployment or --nodes=0.
	Flags []string
	// Timeout until it is ready, the builds included; ten minutes if zero.
	Timeout time.Duration
}

// Dev is a running pintle dev: an embedded cluster with simulated nodes, the built-in controllers and plugins.
type Dev struct {
	// Kubeconfig is the path of its kubeconfig, for kubectl and client-go.
	Kubeconfig string
	// Ready is what --ready-file contains.
	Ready map[string]any

	server    string
	client    *http.Client
	log       string
	resources map[string]resource
}

type resource struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"`
	Namespaced bool   `json:"namespaced"`
}

// APIError is an answer of the API server that is not 2xx.
type APIError struct {
	// Code is the HTTP status code.
	Code int
	// Reason is that of the Status, such as NotFound.
	Reason string
	// Message is for people.
	Message string
}

func (e *APIError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Code, e.Reason, e.Message)
}

// How long pintle dev may take to end after it was asked to, and the time between two looks at what has not come yet.
const (
	devGrace = 10 * time.Second
	devPause = 50 * time.Millisecond
)

// StartDev starts pintle dev and waits until the plugins run. It ends with the test, and with the test program, however that ends.
// The program is the one that the environment variable PINTLE_BIN names, or pintle on the PATH. If it does not get ready, the test fails
// with its log.
func StartDev(t testing.TB, options DevOptions) *Dev {
	t.Helper()
	program := os.Getenv("PINTLE_BIN")
	if program == "" {
		found, err := exec.LookPath("pintle")
		if err != nil {
			t.Fatal("there is no `pintle` on the PATH: install it, or name the program by the environment variable PINTLE_BIN")
		}
		program = found
	}
	// Not that of the test, whose name may make a path of a socket too long.
	folder, err := os.MkdirTemp("", "pintle-dev-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	in := func(name string) string { return filepath.Join(folder, name) }
	arguments := []string{
		"dev", "--stop-with-stdin", "--ready-file=" + in("ready.json"), "--kubeconfig=" + in("kubeconfig"),
		"--admin-socket=" + in("admin.sock"),
	}
	for _, plugin := range options.Plugins {
		arguments = append(arguments, "--plugin="+plugin)
	}
	command := exec.Command(program, append(arguments, options.Flags...)...)
	log, err := os.Create(in("log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	command.Stdout, command.Stderr = log, log
	// The pipe ends with this process, whatever ends it, and with it pintle dev.
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("cannot start %s: %v", program, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		_ = stdin.Close()
		select {
		case <-ended:
		case <-time.After(devGrace):
			_ = command.Process.Kill()
			<-ended
		}
	})
	dev := &Dev{log: in("log"), resources: map[string]resource{}}
	if err := dev.await(in("ready.json"), ended, options.Timeout); err != nil {
		t.Fatalf("%v\n%s", err, dev.Log())
	}
	return dev
}

// await waits for the file that says that everything runs, and reads it.
func (d *Dev) await(file string, ended chan error, timeout time.Duration) error {
	if timeout == 0 {
		timeout = 10 * time.Minute
	}
	deadline := time.Now().Add(timeout)
	var ready []byte
	for {
		var err error
		if ready, err = os.ReadFile(file); err == nil {
			break
		}
		select {
		case err := <-ended:
			// For the cleanup.
			ended <- err
			return errors.New("pintle dev ended:")
		case <-time.After(devPause):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("pintle dev is not ready after %s:", timeout)
		}
	}
	if err := json.Unmarshal(ready, &d.Ready); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if wrong, ok := d.Ready["error"].(string); ok {
		return fmt.Errorf("a plugin does not run: %s", wrong)
	}
	d.Kubeconfig, _ = d.Ready["kubeconfig"].(string)
	return d.connect()
}

func (d *Dev) connect() error {
	text, err := os.ReadFile(d.Kubeconfig)
	if err != nil {
		return err
	}
	// It is the file that pintle dev writes, one field a line.
	field := func(name string) string {
		for line := range strings.Lines(string(text)) {
			if value, found := strings.CutPrefix(strings.TrimSpace(line), name+": "); found {
				return strings.Trim(value, `"'`)
			}
		}
		return ""
	}
	var pems [3][]byte
	for i, name := range []string{"certificate-authority-data", "client-certificate-data", "client-key-data"} {
		if pems[i], err = base64.StdEncoding.DecodeString(field(name)); err != nil || len(pems[i]) == 0 {
			return fmt.Errorf("%s is not a kubeconfig of pintle dev: %s: %w", d.Kubeconfig, name, err)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pems[0])
	certificate, err := tls.X509KeyPair(pems[1], pems[2])
	if err != nil {
		return fmt.Errorf("%s: %w", d.Kubeconfig, err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}}}
	d.server, d.client = field("server"), &http.Client{Transport: transport, Timeout: time.Minute}
	return nil
}

// Log is what it has printed so far: the lines of the plugins are among them.
func (d *Dev) Log() string {
	text, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Request sends a request to the API server. The body, if there is one, is sent as JSON. An answer that is not 2xx is an [APIError].
func (d *Dev) Request(method, path string, body any, contentType string) (map[string]any, error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, d.server+path, sent)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Accept", "application/json")
	response, err := d.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var answer map[string]any
	err = json.Unmarshal(text, &answer)
	if response.StatusCode >= 300 {
		failed := &APIError{Code: response.StatusCode, Message: string(text)}
		if err == nil {
			failed.Reason, _ = answer["reason"].(string)
			failed.Message, _ = answer["message"].(string)
		}
		return nil, failed
	}
	return answer, err
}

// Apply creates or changes an object, as kubectl apply --server-side --force-conflicts. The test fails if the API server refuses.
func (d *Dev) Apply(t testing.TB, object map[string]any) map[string]any {
	t.Helper()
	text := func(value any) string { text, _ := value.(string); return text }
	meta, _ := object["metadata"].(map[string]any)
	kind := text(object["apiVersion"]) + "/" + text(object["kind"])
	path, err := d.path(kind, text(meta["namespace"]), text(meta["name"]))
	if err == nil {
		object, err = d.Request(http.MethodPatch, path+"?fieldManager=test&force=true", object, "application/apply-patch+yaml")
	}
	if err != nil {
		t.Fatalf("apply %s %s: %v", kind, text(meta["name"]), err)
	}
	return object
}

// Get gives an object, or nil. The kind is as in the manifest: apps/v1/Deployment. The test fails if the API server refuses.
func (d *Dev) Get(t testing.TB, kind, namespace, name string) map[string]any {
	t.Helper()
	path, err := d.path(kind, namespace, name)
	if err != nil {
		t.Fatalf("get %s %s/%s: %v", kind, namespace, name, err)
	}
	object, err := d.Request(http.MethodGet, path, nil, "application/json")
	var refused *APIError
	if errors.As(err, &refused) && refused.Code == http.StatusNotFound {
		return nil
	}
	if err != nil {
		t.Fatalf("get %s %s/%s: %v", kind, namespace, name, err)
	}
	return object
}

// Delete deletes an object, as kubectl delete --wait=false. The test fails if the API server refuses.
func (d *Dev) Delete(t testing.TB, kind, namespace, name string) {
	t.Helper()
	path, err := d.path(kind, namespace, name)
	if err == nil {
		_, err = d.Request(http.MethodDelete, path, nil, "application/json")
	}
	if err != nil {
		t.Fatalf("delete %s %s/%s: %v", kind, namespace, name, err)
	}
}

// Wait waits until the object, nil if there is none, fulfils the condition, and gives it. After the timeout, the test fails with the
// object and the log.
func (d *Dev) Wait(t testing.TB, kind, namespace, name string, timeout time.Duration, until func(object map[string]any) bool) map[string]any {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for {
		object := d.Get(t, kind, namespace, name)
		if until(object) {
			return object
		}
		if time.Now().After(deadline) {
			shown, _ := json.MarshalIndent(object, "", "  ")
			t.Fatalf("%s %s/%s is not as expected after %s: %s\n%s", kind, namespace, name, timeout, shown, d.Log())
		}
		time.Sleep(devPause)
	}
}

func (d *Dev) path(kind, namespace, name string) (string, error) {
	at := strings.LastIndex(kind, "/")
	if at < 0 {
		return "", fmt.Errorf("%q is not a kind: write apps/v1/Deployment", kind)
	}
	version, kindName := kind[:at], kind[at+1:]
	root := "/api/" + version
	if strings.Contains(version, "/") {
		root = "/apis/" + version
	}
	found, known := d.resources[kind]
	if !known {
		list, err := d.Request(http.MethodGet, root, nil, "application/json")
		if err != nil {
			return "", err
		}
		var resources struct {
			Resources []resource `json:"resources"`
		}
		text, err := json.Marshal(list)
		if err == nil {
			err = json.Unmarshal(text, &resources)
		}
		if err != nil {
			return "", err
		}
		for _, resource := range resources.Resources {
			if resource.Kind == kindName && !strings.Contains(resource.Name, "/") {
				found, known = resource, true
			}
		}
		if !known {
			return "", &APIError{Code: http.StatusNotFound, Reason: "NotFound", Message: "the API server does not serve " + kind}
		}
		d.resources[kind] = found
	}
	path := root
	if found.Namespaced {
		if namespace == "" {
			namespace = "default"
		}
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	return path + "/" + found.Name + "/" + url.PathEscape(name), nil
}
