//go:build !wasip1

package pintle

import (
	"fmt"
	"os"
)

func writeLog(level level, message string) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", [...]string{"debug", "info", "warn", "error"}[level], message)
}
