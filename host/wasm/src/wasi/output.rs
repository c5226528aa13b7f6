//! stdin, stdout and stderr: output lines go to the log of the run, within its limits.

use std::collections::VecDeque;

use wasmtime::Result;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::cli::{stderr, stdin, stdout};
use wasmtime_wasi::p2::bindings::sync::io::{error, streams};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, StreamError, StreamResult};

use super::{Wasi, clock};
use crate::contract::log::Level;
use crate::logs::{Logs, MAX_LINE_BYTES};

/// Number of the only input.
const STDIN: u32 = 0;
/// Numbers of the outputs.
const STDOUT: u32 = 1;
const STDERR: u32 = 2;
/// Maximum bytes written by one call.
const MAX_WRITE_BYTES: u64 = 64 << 10;
/// Maximum bytes written by one blocking call, as defined by WASI.
const MAX_BLOCKING_BYTES: u64 = 4096;
/// Maximum bytes at the end of stderr that are kept for the message of a fault.
const MAX_TAIL_BYTES: usize = 1024;

/// The output of a run.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Incomplete lines, up to the length that the log shows.
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// The last lines of stderr.
    tail: VecDeque<String>,
    n_tail_bytes: usize,
}

impl Output {
    /// Without a log, while an instance is created, only the last lines of stderr are kept.
    fn write(&mut self, stream: u32, bytes: &[u8], mut logs: Option<&mut Logs>) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest);
            let (more, next) = rest.split_at(end.unwrap_or(rest.len()));
            let line = if stream == STDERR { &mut self.stderr } else { &mut self.stdout };
            // One byte more than the maximum makes the log truncate the line.
            let room = (MAX_LINE_BYTES + 1).saturating_sub(line.len());
            line.extend_from_slice(&more[..more.len().min(room)]);
            if end.is_some() {
                self.end_line(stream, logs.as_deref_mut());
            }
            rest = next.get(1..).unwrap_or_default();
        }
    }

    fn end_line(&mut self, stream: u32, logs: Option<&mut Logs>) {
        let (line, level) = match stream {
            STDERR => (&mut self.stderr, Level::Warn),
            _ => (&mut self.stdout, Level::Info),
        };
        let bytes = line.trim_ascii_end();
        if !bytes.is_empty() {
            let logs = logs.and_then(|logs| logs.has_room().then_some(logs));
            if logs.is_some() || stream == STDERR {
                let text = String::from_utf8_lossy(bytes);
                if let Some(logs) = logs {
                    logs.write(level, &text);
                }
                if stream == STDERR {
                    self.n_tail_bytes += text.len();
                    self.tail.push_back(text.into_owned());
                    while self.n_tail_bytes > MAX_TAIL_BYTES
                        && self.tail.len() > 1
                        && let Some(oldest) = self.tail.pop_front()
                    {
                        self.n_tail_bytes -= oldest.len();
                    }
                }
            }
        }
        line.clear();
    }

    /// Ends the run, or the creation of the instance: incomplete lines count as complete. Returns the last lines of
    /// stderr as one, for the message of a fault.
    pub(super) fn end(&mut self, mut logs: Option<&mut Logs>) -> Option<String> {
        self.end_line(STDOUT, logs.as_deref_mut());
        self.end_line(STDERR, logs);
        self.n_tail_bytes = 0;
        let tail = Vec::from(std::mem::take(&mut self.tail));
        (!tail.is_empty()).then(|| tail.join(" | "))
    }
}

impl Wasi<'_> {
    fn write(&mut self, stream: &Resource<DynOutputStream>, bytes: &[u8], limit: u64) -> StreamResult<()> {
        if bytes.len() as u64 > limit {
            return Err(StreamError::trap("a write of more bytes than the stream permits"));
        }
        let (state, run) = self.parts();
        state.output.write(stream.rep(), bytes, run.map(|run| &mut run.logs));
        Ok(())
    }

    fn zeroes(&mut self, stream: &Resource<DynOutputStream>, n: u64, limit: u64) -> StreamResult<()> {
        if n > limit {
            return Err(StreamError::trap("a write of more bytes than the stream permits"));
        }
        self.write(stream, &vec![0; usize::try_from(n).unwrap_or_default()], limit)
    }

    fn no_input<T>(&mut self) -> StreamResult<T> {
        self.count().map_err(StreamError::Trap)?;
        Err(StreamError::Closed)
    }

    pub(super) fn always_ready(&mut self) -> Result<Resource<DynPollable>> {
        self.give_handle()?;
        Ok(Resource::new_own(clock::READY))
    }
}

impl stdin::Host for Wasi<'_> {
    fn get_stdin(&mut self) -> Result<Resource<DynInputStream>> {
        self.give_handle()?;
        Ok(Resource::new_own(STDIN))
    }
}

impl stdout::Host for Wasi<'_> {
    fn get_stdout(&mut self) -> Result<Resource<DynOutputStream>> {
        self.give_handle()?;
        Ok(Resource::new_own(STDOUT))
    }
}

impl stderr::Host for Wasi<'_> {
    fn get_stderr(&mut self) -> Result<Resource<DynOutputStream>> {
        self.give_handle()?;
        Ok(Resource::new_own(STDERR))
    }
}

impl streams::Host for Wasi<'_> {
    fn convert_stream_error(&mut self, error: StreamError) -> Result<streams::StreamError> {
        match error {
            StreamError::Closed => Ok(streams::StreamError::Closed),
            StreamError::LastOperationFailed(error) | StreamError::Trap(error) => Err(error),
        }
    }
}

impl streams::HostInputStream for Wasi<'_> {
    fn read(&mut self, _: Resource<DynInputStream>, _: u64) -> StreamResult<Vec<u8>> {
        self.no_input()
    }

    fn blocking_read(&mut self, _: Resource<DynInputStream>, _: u64) -> StreamResult<Vec<u8>> {
        self.no_input()
    }

    fn skip(&mut self, _: Resource<DynInputStream>, _: u64) -> StreamResult<u64> {
        self.no_input()
    }

    fn blocking_skip(&mut self, _: Resource<DynInputStream>, _: u64) -> StreamResult<u64> {
        self.no_input()
    }

    fn subscribe(&mut self, _: Resource<DynInputStream>) -> Result<Resource<DynPollable>> {
        self.always_ready()
    }

    fn drop(&mut self, _: Resource<DynInputStream>) -> Result<()> {
        self.drop_handle();
        Ok(())
    }
}

/// Writes do not count as host calls: the limits of the log bound their cost, as for the contract's own log.
impl streams::HostOutputStream for Wasi<'_> {
    fn check_write(&mut self, _: Resource<DynOutputStream>) -> StreamResult<u64> {
        Ok(MAX_WRITE_BYTES)
    }

    fn write(&mut self, stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        Wasi::write(self, &stream, &bytes, MAX_WRITE_BYTES)
    }

    fn blocking_write_and_flush(&mut self, stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        Wasi::write(self, &stream, &bytes, MAX_BLOCKING_BYTES)
    }

    fn flush(&mut self, _: Resource<DynOutputStream>) -> StreamResult<()> {
        Ok(())
    }

    fn blocking_flush(&mut self, _: Resource<DynOutputStream>) -> StreamResult<()> {
        Ok(())
    }

    fn subscribe(&mut self, _: Resource<DynOutputStream>) -> Result<Resource<DynPollable>> {
        self.always_ready()
    }

    fn write_zeroes(&mut self, stream: Resource<DynOutputStream>, n: u64) -> StreamResult<()> {
        self.zeroes(&stream, n, MAX_WRITE_BYTES)
    }

    fn blocking_write_zeroes_and_flush(&mut self, stream: Resource<DynOutputStream>, n: u64) -> StreamResult<()> {
        self.zeroes(&stream, n, MAX_BLOCKING_BYTES)
    }

    fn splice(&mut self, _: Resource<DynOutputStream>, _: Resource<DynInputStream>, _: u64) -> StreamResult<u64> {
        self.no_input()
    }

    fn blocking_splice(
        &mut self,
        _: Resource<DynOutputStream>,
        _: Resource<DynInputStream>,
        _: u64,
    ) -> StreamResult<u64> {
        self.no_input()
    }

    fn drop(&mut self, _: Resource<DynOutputStream>) -> Result<()> {
        self.drop_handle();
        Ok(())
    }
}

/// No stream fails, so there are no errors to inspect.
impl error::Host for Wasi<'_> {}

impl error::HostError for Wasi<'_> {
    fn to_debug_string(&mut self, _: Resource<error::Error>) -> Result<String> {
        self.count()?;
        Ok(String::new())
    }

    fn drop(&mut self, _: Resource<error::Error>) -> Result<()> {
        Ok(())
    }
}
