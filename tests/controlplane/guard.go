package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// lifelineVar, when set to "stdin", ties this process to whoever holds the other end of its standard
// input: at end of file it ends at once. A test that is killed closes its pipes, so nothing that it
// started outlives it, whatever killed it. (A parent-death signal alone would not do: Linux sends it
// when the *thread* that started the process ends, and test threads end long before the process.)
const lifelineVar = "CONTROLPLANE_LIFELINE"

func holdLifeline() {
	if os.Getenv(lifelineVar) != "stdin" {
		return
	}
	_ = os.Unsetenv(lifelineVar)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}()
}

// guard runs any other program as a child that cannot outlive this process, passes the usual signals
// on to it, and ends with its exit code.
func guard(command []string) int {
	if len(command) == 0 {
		usage()
	}
	// The death signal is tied to this thread, so this goroutine keeps it until the process ends.
	runtime.LockOSThread()
	child := exec.Command(command[0], command[1:]...)
	child.Stdout = os.Stdout
	child.Stderr = os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if err := child.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 127
	}
	go func() {
		for s := range signals {
			_ = child.Process.Signal(s)
		}
	}()
	err := child.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal())
		}
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
