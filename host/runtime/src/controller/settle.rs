//! Finds out what became of writes whose answer was lost, while their key waits.
//!
//! ```text
//! dispatch (key held, its wait open) ──> questions ──ask──> API server ──> Pending::settle ──> released, or held for the caches
//! ```
//!
//! Invariants:
//! 1. No worker waits here: a kind that cannot be read delays its own keys alone.
//! 2. Asking ends with the key's wait: at the bound, the key runs on what the caches show.
//!
//! Not here: what is asked (`writer::Question`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use pintle_core::api::{ApiError, Target};
use pintle_core::id::Key;
use pintle_core::pending::{PendingWrite, WaitId};

use super::Controller;
use crate::writer::Question;

/// Questions of one plugin that are under way at once: after an outage many keys ask.
pub(super) const MAX_ASKING: usize = 8;
/// Pause before a question is asked again; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Questions with how the caches read what they are about.
pub(super) type Questions = Vec<(Question, Target)>;
/// What is known now, or the question that has to be asked again.
type Answer = Result<Vec<PendingWrite>, ((Question, Target), ApiError)>;

impl Controller {
    /// Those questions that the plugin's caches depend on.
    pub(super) fn relevant(&self, questions: impl IntoIterator<Item = Question>) -> Questions {
        let world = self.world();
        let with_reading = |question: Question| {
            let reading = world.reading(&question.kind, &question.namespace)?;
            Some((question, reading))
        };
        questions.into_iter().filter_map(with_reading).collect()
    }

    /// Asks until all is known or the wait is over.
    pub(super) async fn settle(self: Arc<Self>, key: Key, id: WaitId, questions: Questions, deadline: Instant) {
        let writes = tokio::select! {
            writes = self.ask_until_known(&key, questions) => writes,
            () = tokio::time::sleep_until(deadline.into()) => return,
            () = self.stopped.cancelled() => return,
        };
        let world = self.world();
        let mut inner = self.inner.lock();
        if inner.pending.settle(&key, id, writes, |write| world.sees(write)) {
            inner.release(&key);
            self.wake_if_due(inner);
            self.activity.notify_waiters();
        }
    }

    async fn ask_until_known(&self, key: &Key, mut questions: Questions) -> Vec<PendingWrite> {
        let mut writes = Vec::new();
        let mut pause = FIRST_PAUSE;
        loop {
            let answers: Vec<Answer> = futures::stream::iter(questions)
                .map(async |(question, reading)| {
                    // Never closed.
                    let _permit = self.asking.acquire().await;
                    let answer = question.ask(reading.clone(), &*self.reader).await;
                    answer.map_err(|error| ((question, reading), error))
                })
                .buffer_unordered(MAX_ASKING)
                .collect()
                .await;
            questions = Vec::new();
            for answer in answers {
                match answer {
                    Ok(more) => writes.extend(more),
                    Err((question, error)) => {
                        let kind = &question.0.kind;
                        tracing::debug!(plugin = %self.name, %key, %kind, %error, "the fate of a write is not known yet");
                        questions.push(question);
                    }
                }
            }
            if questions.is_empty() {
                return writes;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
