//! A container: the files of an image, read-only, with volumes, as the user that the Pod names.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Surroundings, path_of};
use crate::Failure;
use crate::ports::free_ports;
use crate::process::Guarded;

/// Sets the container up and becomes its process. Arguments: host name, root, user, group, groups, number of mounts, and for each the
/// source, the place and `ro` or `rw`; then the command.
const SET_UP: &str = r#"set -e
own_path=$PATH; PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
hostname "$1"; root=$2 user=$3 group=$4 groups=$5 n=$6; shift 6
mount --bind "$root" "$root"
while [ "$n" -gt 0 ]; do
  mount --bind "$1" "$root$2"
  if [ "$3" = ro ]; then mount -o remount,bind,ro "$root$2"; fi
  n=$((n - 1)); shift 3
done
mount -o remount,bind,ro "$root"
setpriv=$(command -v setpriv) chroot=$(command -v chroot)
PATH=$own_path exec "$setpriv" --no-new-privs "$chroot" --userspec="$user:$group" --groups="$groups" "$root" "$@"
"#;

/// A container and its process.
#[derive(Debug)]
pub(super) struct Container {
    command: Vec<String>,
    environment: Vec<(String, String)>,
    process: Guarded,
    log: PathBuf,
    folder: PathBuf,
    port: u16,
    probe: String,
    n_restarts: u32,
    grace: Duration,
    /// When it was asked to stop.
    stopping: Option<Instant>,
}

/// The folder of an image that `ctr` has unpacked.
pub(super) fn image(folder: &Path, name: &str) -> PathBuf {
    folder.join("images").join(name.replace(['/', ':'], "_"))
}

fn read_json(file: &Path) -> Result<Value> {
    let text = fs::read(file).with_context(|| format!("read {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("read {}", file.display()))
}

/// Reads a blob of an image, and checks that it is what the digest says.
fn blob(image: &Path, descriptor: &Value) -> Result<Vec<u8>> {
    let digest =
        descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:")).context("no digest")?;
    let bytes = fs::read(image.join("blobs/sha256").join(digest)).with_context(|| format!("read the blob {digest}"))?;
    let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(found == digest, "the blob {digest} is {found}");
    Ok(bytes)
}

/// Unpacks the layers into a folder; answers the configuration.
fn unpack(image: &Path, root: &Path) -> Result<Value> {
    let index = read_json(&image.join("index.json"))?;
    let manifest: Value = serde_json::from_slice(&blob(image, &index["manifests"][0])?)?;
    let config: Value = serde_json::from_slice(&blob(image, &manifest["config"])?)?;
    for layer in manifest["layers"].as_array().context("no layers")? {
        let is_compressed = layer["mediaType"].as_str().is_some_and(|kind| kind.ends_with("+gzip"));
        ensure!(is_compressed, "a layer of another kind");
        let mut archive = tar::Archive::new(GzDecoder::new(std::io::Cursor::new(blob(image, layer)?)));
        archive.set_preserve_permissions(true);
        archive.set_preserve_ownerships(true);
        archive.unpack(root).context("unpack a layer")?;
    }
    Ok(config["config"].clone())
}

/// A volume, and where it is in the container.
struct Mount {
    source: PathBuf,
    place: String,
    read_only: bool,
}

impl Container {
    /// Sets it up and starts it; nothing if a volume is not there yet.
    pub(super) async fn create(around: &Surroundings<'_>, pod: &Value) -> Result<Option<Self>> {
        let spec = &pod["spec"];
        let of = &spec["containers"][0];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let image = image(around.folder, &text(&of["image"]));
        let folder = around.folder.join("containers").join(text(&pod["metadata"]["uid"]));
        // What an earlier try has left.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).context("make the folder of a container")?;
        let root = folder.join("root");
        fs::create_dir(&root)?;
        let config = unpack(&image, &root).with_context(|| format!("image {}", image.display()))?;

        let mut mounts = Vec::new();
        for mount in of["volumeMounts"].as_array().into_iter().flatten() {
            let (name, place) = (text(&mount["name"]), text(&mount["mountPath"]));
            let volume = spec["volumes"].as_array().into_iter().flatten().find(|volume| volume["name"] == *name);
            let volume = volume.with_context(|| format!("no volume {name}"))?;
            let Some(source) = make_volume(around, pod, volume, &folder.join("volumes").join(&name)).await? else {
                return Ok(None);
            };
            // The runtime makes what the image does not have.
            let inside = root.join(place.trim_start_matches('/'));
            if source.is_dir() {
                fs::create_dir_all(&inside)?;
            } else {
                fs::create_dir_all(inside.parent().context("a place without a folder")?)?;
                fs::write(&inside, "")?;
            }
            mounts.push(Mount { source, place, read_only: mount["readOnly"] == true });
        }

        let [port] = free_ports()?;
        let mut command = vec![text(&pod["metadata"]["name"]), root.display().to_string()];
        command.extend(user(spec, of, &config)?);
        command.push(mounts.len().to_string());
        for Mount { source, place, read_only } in mounts {
            command.extend([source.display().to_string(), place, if read_only { "ro" } else { "rw" }.to_owned()]);
        }
        let entry =
            [&of["command"], &config["Entrypoint"]].into_iter().find_map(Value::as_array).context("no command")?;
        let args = [&of["args"], &config["Cmd"]].into_iter().find_map(Value::as_array).context("no arguments")?;
        command.extend(entry.iter().map(text));
        // All containers share the ports of this machine.
        let ours = ["--secure-port=", "--bind-address="];
        command.extend(args.iter().map(text).filter(|arg| !ours.iter().any(|flag| arg.starts_with(flag))));
        command.extend([format!("--secure-port={port}"), "--bind-address=127.0.0.1".to_owned()]);
        let mut environment = vec![];
        for variable in config["Env"].as_array().into_iter().flatten() {
            let variable = text(variable);
            let (name, value) = variable.split_once('=').context("a variable without a value")?;
            environment.push((name.to_owned(), value.to_owned()));
        }
        for variable in of["env"].as_array().into_iter().flatten() {
            environment.push((text(&variable["name"]), text(&variable["value"])));
        }
        let server = around.plane.base_url();
        let (host, api_port) = server.trim_start_matches("https://").split_once(':').context("an address")?;
        environment.push(("KUBERNETES_SERVICE_HOST".to_owned(), host.to_owned()));
        environment.push(("KUBERNETES_SERVICE_PORT".to_owned(), api_port.to_owned()));
        let log = around.folder.join(format!("{}.log", text(&pod["metadata"]["name"])));
        let process = start(&command, &environment, &log)?;
        Ok(Some(Self {
            command,
            environment,
            process,
            log,
            folder,
            port,
            probe: text(&of["readinessProbe"]["httpGet"]["path"]),
            n_restarts: 0,
            grace: Duration::from_secs(spec["terminationGracePeriodSeconds"].as_u64().unwrap_or(30)),
            stopping: None,
        }))
    }

    pub(super) fn restart_if_ended(&mut self) -> Result<()> {
        if self.process.exited().is_some() {
            self.n_restarts += 1;
            if self.n_restarts > 5 {
                bail!(
                    "the container {} ends again and again:\n{}",
                    self.folder.display(),
                    crate::process::tail(&self.log)
                );
            }
            self.process = start(&self.command, &self.environment, &self.log)?;
        }
        Ok(())
    }

    /// Whether the readiness probe succeeds. A kubelet does not look at the certificate either.
    pub(super) async fn is_ready(&mut self) -> bool {
        let url = format!("https://127.0.0.1:{}{}", self.port, self.probe);
        let mut probe = tokio::process::Command::new("curl");
        probe.args(["--silent", "--fail", "--insecure", "--max-time", "5", &url]).kill_on_drop(true);
        probe.output().await.is_ok_and(|output| output.status.success())
    }

    pub(super) fn status(&self, pod: &Value, is_ready: bool) -> Value {
        let of = &pod["spec"]["containers"][0];
        let said = if is_ready { "True" } else { "False" };
        let kinds = ["Ready", "ContainersReady", "Initialized", "PodScheduled"];
        let conditions = kinds.map(|kind| json!({"type": kind, "status": said}));
        json!({
            "phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}],
            "conditions": conditions,
            "containerStatuses": [{
                "name": of["name"], "image": of["image"], "imageID": "", "ready": is_ready, "started": true,
                "restartCount": self.n_restarts, "state": {"running": {}},
            }],
        })
    }

    /// Asks it to stop; whether it has ended. After the grace period it is killed.
    pub(super) fn stop(&mut self) -> bool {
        if self.process.exited().is_some() {
            return true;
        }
        let since = self.stopping.get_or_insert_with(|| {
            self.process.terminate();
            Instant::now()
        });
        if since.elapsed() > self.grace {
            self.process.kill();
            return true;
        }
        false
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.process.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn start(command: &[String], environment: &[(String, String)], log: &Path) -> Result<Guarded> {
    // The environment is that of the container, PATH included, so the script finds its programs by itself.
    let unshare = ["/usr/bin/unshare", "/bin/unshare"].into_iter().find(|file| Path::new(file).exists());
    let mut run = Command::new(unshare.context("there is no unshare on this machine")?);
    run.args(["--mount", "--uts", "--propagation", "private", "/bin/sh", "-c", SET_UP, "container"]).args(command);
    run.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
    Guarded::tied("container", &mut run, log)
}

/// User, group and further groups, as words of the command.
fn user(spec: &Value, of: &Value, config: &Value) -> Result<[String; 3]> {
    let field = |name: &str| of["securityContext"][name].as_u64().or_else(|| spec["securityContext"][name].as_u64());
    let of_image = config["User"].as_str().unwrap_or("0:0");
    let (user, group) = of_image.split_once(':').unwrap_or((of_image, "0"));
    let user = field("runAsUser").map_or_else(|| user.to_owned(), |id| id.to_string());
    let group = field("runAsGroup")
        .map_or_else(|| if user == "0" { "0".to_owned() } else { group.to_owned() }, |id| id.to_string());
    if field("runAsUser").is_none() && spec["securityContext"]["runAsNonRoot"] == true {
        ensure!(user != "0", "the image runs as root");
    }
    let groups = spec["securityContext"]["fsGroup"].as_u64().map_or_else(|| group.clone(), |id| id.to_string());
    Ok([user, group, groups])
}

/// Makes a volume of a Pod; nothing if what it is made from is not there yet.
async fn make_volume(around: &Surroundings<'_>, pod: &Value, volume: &Value, folder: &Path) -> Result<Option<PathBuf>> {
    let fs_group = pod["spec"]["securityContext"]["fsGroup"].as_u64().and_then(|id| u32::try_from(id).ok());
    if let Some(path) = volume["hostPath"]["path"].as_str() {
        let of_node = around.folder.join("node").join(path.trim_start_matches('/'));
        ensure!(of_node.exists(), "the node has no {path}");
        return Ok(Some(of_node));
    }
    fs::create_dir_all(folder)?;
    if !volume["emptyDir"].is_null() {
        fs::set_permissions(folder, fs::Permissions::from_mode(if fs_group.is_some() { 0o2777 } else { 0o777 }))?;
        chown(folder, None, fs_group)?;
        return Ok(Some(folder.to_owned()));
    }
    for source in volume["projected"]["sources"].as_array().context("a volume of another kind")? {
        let meta = &pod["metadata"];
        let namespace = meta["namespace"].as_str().unwrap_or_default();
        if !source["serviceAccountToken"].is_null() {
            let token = &source["serviceAccountToken"];
            let account = pod["spec"]["serviceAccountName"].as_str().unwrap_or("default");
            let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {
                "expirationSeconds": token["expirationSeconds"],
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]},
            }});
            let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
            let answer =
                around.client.create(&path, &request).await.with_context(|| format!("a token for {}", path_of(pod)))?;
            write(folder, &token["path"], answer["status"]["token"].as_str().context("no token")?, fs_group)?;
        } else if let Some(name) = source["configMap"]["name"].as_str() {
            let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
            let map = match around.client.get(&path).await {
                Err(error) if Failure::code_of(&error) == Some(404) => return Ok(None),
                map => map?,
            };
            for item in source["configMap"]["items"].as_array().into_iter().flatten() {
                let value =
                    map["data"][item["key"].as_str().unwrap_or_default()].as_str().context("a key is missing")?;
                write(folder, &item["path"], value, fs_group)?;
            }
        } else {
            for item in source["downwardAPI"]["items"].as_array().context("a source of another kind")? {
                ensure!(item["fieldRef"]["fieldPath"] == "metadata.namespace", "{item}");
                write(folder, &item["path"], namespace, fs_group)?;
            }
        }
    }
    Ok(Some(folder.to_owned()))
}

/// Files of these volumes are for the group of the Pod.
fn write(folder: &Path, name: &Value, text: &str, group: Option<u32>) -> Result<()> {
    let file = folder.join(name.as_str().context("a file without a name")?);
    fs::write(&file, text)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(if group.is_some() { 0o640 } else { 0o644 }))?;
    Ok(chown(&file, None, group)?)
}
