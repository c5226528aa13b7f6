//! Plays a case of the script on one server and writes down what the server said.

use std::collections::HashMap;
use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::normalize::{Normalizer, without_wording};
use super::script::{Case, Look, Step};
use crate::api::{ApiClient, Watch};
use crate::{PATIENCE, eventually};

/// Plays `case` in the namespace `ns`, which is created first, and returns the normalized transcript.
///
/// # Errors
/// The case cannot go on: no answer, an event that does not come, a variable that has no value. The
/// message holds the transcript so far.
pub async fn play(client: &ApiClient, case: &Case, ns: &str) -> Result<String> {
    client.create_namespace(ns).await.context("make a namespace")?;
    // No controller runs, so nobody else makes the account that Pods are refused without.
    let account = json!({"metadata": {"name": "default"}, "automountServiceAccountToken": false});
    let accounts = format!("/api/v1/namespaces/{ns}/serviceaccounts");
    client.create(&accounts, &account).await.context("make the default account")?;
    let mut player = Player {
        client,
        variables: HashMap::from([("ns".to_owned(), ns.to_owned())]),
        normalizer: Normalizer::new(&case.ignored),
        watches: HashMap::new(),
        last: Value::Null,
        transcript: String::new(),
    };
    for step in &case.steps {
        if let Err(error) = player.play(step).await {
            return Err(error.context(format!("after\n{}", player.transcript)));
        }
    }
    Ok(player.transcript)
}

/// What is recorded of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Everything,
    /// All but the texts for people.
    Structure,
    Code,
}

struct Player<'a> {
    client: &'a ApiClient,
    variables: HashMap<String, String>,
    normalizer: Normalizer,
    watches: HashMap<String, Watch>,
    last: Value,
    transcript: String,
}

impl Player<'_> {
    async fn play(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Request { verb, path, headers, body, quiet, wording } => {
                let body = body.as_deref().map(|b| self.fill(b));
                let shown = match (quiet, wording) {
                    (true, _) => Shown::Code,
                    (false, Some(_)) => Shown::Structure,
                    (false, None) => Shown::Everything,
                };
                self.request(verb, path, headers, body, shown).await
            }
            Step::Let { name, pointer } => {
                let value = self.last.pointer(pointer).with_context(|| format!("the last answer has no {pointer}"))?;
                let value = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                self.variables.insert(name.clone(), value);
                Ok(())
            }
            Step::Watch { id, path, headers } => {
                let path = self.fill(path);
                let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                let watch = self.client.watch_with(&path, &headers).await?;
                self.watches.insert(id.clone(), watch);
                Ok(())
            }
            Step::Events { id, n } => {
                for i in 1..=*n {
                    let watch = self.watches.get_mut(id).context("no such watch")?;
                    let event = watch
                        .next(PATIENCE)
                        .await
                        .with_context(|| format!("event {i} of watch {id}"))?
                        .with_context(|| format!("watch {id} ended before event {i}"))?;
                    self.record(&format!("{id} event"), &event);
                }
                Ok(())
            }
            Step::End { id } => {
                let mut watch = self.watches.remove(id).context("no such watch")?;
                while let Some(event) = watch.next(PATIENCE).await? {
                    self.record(&format!("{id} event"), &event);
                }
                self.transcript.push_str(&format!("{id} ended\n"));
                Ok(())
            }
            Step::Await { path, look } => {
                let path = self.fill(path);
                self.wait(&path, look).await
            }
            Step::Try { path, code, body } => {
                let (path, body) = (format!("{}?dryRun=All", self.fill(path)), self.fill(body));
                let body: Value = serde_norway::from_str(&body).context("the body is not YAML")?;
                eventually(PATIENCE, format!("{path} to answer {code}"), async || {
                    let answer = self.client.request("POST", &path, &[], Some(serde_json::to_vec(&body)?)).await?;
                    ensure!(answer.status == *code, "{} {}", answer.status, answer.text());
                    Ok(Some(()))
                })
                .await
            }
        }
    }

    async fn request(
        &mut self,
        verb: &str,
        path: &str,
        headers: &[(String, String)],
        body: Option<String>,
        shown: Shown,
    ) -> Result<()> {
        let (method, content_type) = match verb {
            "PATCH-JSON" => ("PATCH", Some("application/json-patch+json")),
            "PATCH-MERGE" => ("PATCH", Some("application/merge-patch+json")),
            "PATCH-STRATEGIC" => ("PATCH", Some("application/strategic-merge-patch+json")),
            "APPLY" => ("PATCH", Some("application/apply-patch+yaml")),
            other => (other, None),
        };
        let mut all: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let named = all.iter().any(|(n, _)| n.eq_ignore_ascii_case("content-type"));
        if let Some(content_type) = content_type
            && !named
        {
            all.push(("content-type", content_type));
        }
        let bytes = match body {
            None => None,
            // A body that is broken on purpose.
            Some(text) if text.starts_with("RAW ") => Some(text.as_bytes()[4..].to_vec()),
            Some(text) => {
                let value: Value =
                    serde_norway::from_str(&text).with_context(|| format!("the body is not YAML: {text}"))?;
                Some(serde_json::to_vec(&value)?)
            }
        };
        let filled = self.fill(path);
        let answer = self.client.request(method, &filled, &all, bytes).await?;
        // With its variables unfilled: two servers have not the same continue tokens.
        let heading = format!("{verb} {path} -> {}", answer.status);
        match answer.json() {
            Ok(body) => {
                self.last = body.clone();
                match shown {
                    Shown::Everything => self.record(&heading, &body),
                    Shown::Structure => {
                        ensure!(body["kind"] == "Status", "{heading} is no Status, whose wording could differ: {body}");
                        self.record(&heading, &without_wording(&body));
                    }
                    Shown::Code => {
                        // Numbers are given in order of appearance, so what is not shown counts too.
                        self.normalizer.apply(&body);
                        let _ = writeln!(self.transcript, "{heading}");
                    }
                }
            }
            Err(_) => {
                self.last = Value::Null;
                let _ = writeln!(self.transcript, "{heading}");
                if shown != Shown::Code {
                    let _ = writeln!(self.transcript, "{}: {}", answer.content_type, answer.text());
                }
            }
        }
        Ok(())
    }

    async fn wait(&mut self, path: &str, look: &Look) -> Result<()> {
        let client = self.client;
        eventually(PATIENCE, format!("{path} {look:?}"), async || {
            let answer = client.request("GET", path, &[], None).await?;
            let body = answer.json().unwrap_or_default();
            let seen = match look {
                Look::Code(code) => answer.status == *code,
                Look::Condition(name) => {
                    let wanted = json!({"type": name, "status": "True"});
                    let conditions = body["status"]["conditions"].as_array();
                    conditions
                        .into_iter()
                        .flatten()
                        .any(|c| c["type"] == wanted["type"] && c["status"] == wanted["status"])
                }
                Look::At(pointer, value) => body.pointer(pointer) == Some(value),
            };
            if !seen {
                bail!("{} {}", answer.status, answer.text());
            }
            Ok(Some(()))
        })
        .await
    }

    fn record(&mut self, heading: &str, value: &Value) {
        let value = self.normalizer.apply(value);
        let _ = writeln!(self.transcript, "{heading}\n{value:#}");
    }

    fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.variables {
            text = text.replace(&format!("{{{name}}}"), value);
        }
        text
    }
}
