package pintle

import "fmt"

// Debugf writes a line to the host's log, which tags it with plugin and key. Size and number of lines are limited.
// Natively lines go to standard error.
//
// What the packages log and log/slog write by default reaches the host's log as well, as lines of level info.
func Debugf(format string, args ...any) { writeLog(levelDebug, fmt.Sprintf(format, args...)) }

// Infof writes a line of level info, as [Debugf].
func Infof(format string, args ...any) { writeLog(levelInfo, fmt.Sprintf(format, args...)) }

// Warnf writes a line of level warn, as [Debugf].
func Warnf(format string, args ...any) { writeLog(levelWarn, fmt.Sprintf(format, args...)) }

// Errorf writes a line of level error, as [Debugf].
func Errorf(format string, args ...any) { writeLog(levelError, fmt.Sprintf(format, args...)) }

type level uint8

// In the order of the contract.
const (
	levelDebug level = iota
	levelInfo
	levelWarn
	levelError
)
