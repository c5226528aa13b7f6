//! A real control plane that writes down who does what, and hosts on it that may do what `pintle rbac` prints and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::controlplane::{Audit, AuditObject};
use crate::{ApiClient, ControlPlane, HostProcess, Options, PATIENCE, eventually, kubectl, pintle};

/// Where the service accounts of hosts and plugins are.
pub const ACCOUNTS: &str = "/api/v1/namespaces/kube-system/serviceaccounts";

/// What `pintle rbac` prints.
///
/// # Errors
/// It fails; the text is what it says.
pub fn rbac(args: &[&str]) -> Result<String> {
    pintle::run(["rbac"].iter().chain(args)).with_context(|| format!("pintle rbac {args:?}"))
}

/// The objects of a printed list.
///
/// # Errors
/// The text is no list.
pub fn items(text: &str) -> Result<Vec<Value>> {
    let list: Value = serde_json::from_str(text)?;
    Ok(list["items"].as_array().context("no items")?.clone())
}

/// Waits until the API server, which reads roles and bindings from caches, allows what each binding of these gives first.
///
/// # Errors
/// It does not in time.
pub async fn in_force(client: &ApiClient, objects: &[Value]) -> Result<()> {
    for binding in objects {
        let (of, place) = (&binding["roleRef"], &binding["metadata"]["namespace"]);
        // A role that was there before may give anything.
        let is_role = |role: &&Value| {
            role["kind"] == of["kind"] && role["metadata"]["name"] == of["name"] && !role["rules"][0].is_null()
        };
        let Some(role) = objects.iter().find(is_role) else { continue };
        let (rule, subject) = (&role["rules"][0], &binding["subjects"][0]);
        let name = subject["name"].as_str().unwrap_or_default();
        let mut spec = match subject["kind"].as_str() {
            Some("ServiceAccount") => {
                json!({"user": format!("system:serviceaccount:{}:{name}", subject["namespace"].as_str().unwrap_or_default())})
            }
            Some("Group") => json!({"groups": [name]}),
            _ => json!({"user": name}),
        };
        if rule["nonResourceURLs"].is_null() {
            let resource = rule["resources"][0].as_str().unwrap_or_default();
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            spec["resourceAttributes"] = json!({
                "namespace": place, "verb": rule["verbs"][0], "group": rule["apiGroups"][0], "resource": resource,
                "subresource": subresource, "name": rule["resourceNames"][0],
            });
        } else {
            spec["nonResourceAttributes"] = json!({"path": rule["nonResourceURLs"][0], "verb": rule["verbs"][0]});
        }
        eventually(PATIENCE, format!("{} to be in force", binding["metadata"]["name"]), async || {
            let review =
                client.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", &json!({"spec": spec})).await?;
            ensure!(review["status"]["allowed"] == true, "{review}");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}

/// The control plane, and a folder for files beside it.
#[derive(Debug)]
pub struct Audited {
    /// The control plane.
    pub plane: ControlPlane,
    /// May do everything.
    pub client: ApiClient,
    folder: TempDir,
}

/// A request that was answered.
#[derive(Debug, Clone)]
pub struct Deed {
    /// Name of the service account in kube-system.
    pub account: String,
    /// Who of the host, as its user agent says: a plugin, `informers` or `accounts`.
    pub who: String,
    /// `VERB RESOURCE[/SUBRESOURCE]`.
    pub what: String,
    /// What RBAC or admission has refused it with.
    pub refusal: Option<String>,
}

impl Deed {
    /// Whether it may have changed anything.
    pub fn is_write(&self) -> bool {
        !["get ", "list ", "watch "].iter().any(|read| self.what.starts_with(read))
    }
}

impl Audited {
    /// Starts the control plane.
    ///
    /// # Errors
    /// As [`ControlPlane::start`].
    pub async fn start() -> Result<Audited> {
        Self::with(Options::default()).await
    }

    /// Starts a control plane with other options.
    ///
    /// # Errors
    /// As [`ControlPlane::start`].
    pub async fn with(options: Options) -> Result<Audited> {
        let folder = tempfile::tempdir()?;
        let options = Options { audit: Some(Audit::Requests), ..options };
        let plane = ControlPlane::start(options).await?;
        Ok(Audited { client: plane.client(), plane, folder })
    }

    /// A folder that goes with this value.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into the folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let file = self.folder.path().join(name);
        fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
        Ok(file)
    }

    /// Creates objects, as an administrator does. `name` is that of a file.
    ///
    /// # Errors
    /// kubectl fails.
    pub async fn create(&self, name: &str, objects: &[Value]) -> Result<()> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        let file = self.write(name, &list)?;
        kubectl(&self.plane.kubeconfig(), &["apply", "-f", &file.display().to_string()]).await?;
        in_force(&self.client, objects).await
    }

    /// Starts a host with a token of its service account, which must exist, and waits until it is ready. Answers a client of the host's
    /// own address too.
    ///
    /// # Errors
    /// The host does not start. The message contains the end of its log.
    pub async fn host(&self, flags: &[String]) -> Result<(HostProcess, ApiClient)> {
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
        let token = self.client.create(&format!("{ACCOUNTS}/pintle/token"), &request).await?;
        let mut kubeconfig: Value = serde_json::from_str(&fs::read_to_string(self.plane.kubeconfig())?)?;
        kubeconfig["users"][0]["user"] = json!({"token": token["status"]["token"]});
        let mut host = HostProcess::start(&kubeconfig.to_string(), flags)?;
        let client = host.ready().await?;
        Ok((host, client))
    }

    /// What accounts of kube-system have done since the log was cleared. Nobody may have been refused anything.
    ///
    /// # Errors
    /// There is no log, or somebody was refused something.
    pub fn deeds(&self) -> Result<Vec<Deed>> {
        let deeds = self.requests()?;
        let refused: Vec<_> = deeds.iter().filter(|deed| deed.refusal.is_some()).collect();
        ensure!(refused.is_empty(), "refused: {refused:#?}");
        Ok(deeds)
    }

    /// As [`Audited::deeds`], but what was carried out may have been refused before, while the API server had not seen a role.
    ///
    /// # Errors
    /// As `deeds`.
    pub fn deeds_in_the_end(&self) -> Result<Vec<Deed>> {
        let (refused, deeds): (Vec<_>, Vec<_>) = self.requests()?.into_iter().partition(|deed| deed.refusal.is_some());
        let carried_out = |of: &Deed| deeds.iter().any(|deed| (&deed.account, &deed.what) == (&of.account, &of.what));
        let never: Vec<_> = refused.iter().filter(|of| !carried_out(of)).collect();
        ensure!(never.is_empty(), "refused: {never:#?}");
        Ok(deeds)
    }

    fn requests(&self) -> Result<Vec<Deed>> {
        let mut deeds = Vec::new();
        for entry in self.plane.audit_log()? {
            let Some(account) = entry.user.username.strip_prefix("system:serviceaccount:kube-system:") else {
                continue;
            };
            let AuditObject { resource, subresource, .. } = &entry.object_ref;
            if resource.is_empty() {
                continue;
            }
            let part = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
            deeds.push(Deed {
                account: account.to_owned(),
                who: entry.user_agent.rsplit(' ').next().unwrap_or_default().to_owned(),
                what: format!("{} {resource}{part}", entry.verb),
                refusal: (entry.response_status.code == 403).then_some(entry.response_status.message),
            });
        }
        Ok(deeds)
    }

    /// Clears the log.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn forget(&self) -> Result<()> {
        self.plane.clear_audit_log()
    }
}
