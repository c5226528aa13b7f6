"""A cluster for a test: `pintle dev` with a controller, started and queried from the test program.

    from pintle.testing.dev import Dev

    with Dev(".") as cluster:
        cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "default"}})
        cluster.wait("v1/Secret", "web", "default")

It ends with the `with` block, and with the test program, however that ends.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any
from urllib.parse import quote, urlsplit

__all__ = ["ApiError", "Dev"]

#: Between two looks at what has not come yet.
_PAUSE_SECONDS = 0.05
#: How long it may take to end after it was asked to.
_GRACE_SECONDS = 10.0


class ApiError(Exception):
    """An answer of the API server that is not 2xx."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        #: HTTP status code.
        self.code = code
        #: `reason` of the Status, such as `NotFound`.
        self.reason = reason


class Dev:
    """A running `pintle dev`."""

    def __init__(self, *plugins: str | Path, flags: Sequence[str] = (), timeout: float = 600) -> None:
        """Starts it and waits until the plugins (folders, which are built, or components) run.

        `flags` are more flags of `pintle dev`, such as `--controllers=-deployment` or `--nodes=0`. `timeout` in seconds includes the builds.
        The program is the one that the environment variable PINTLE_BIN names, or `pintle` on the PATH. Raises RuntimeError, with the log,
        if it does not get ready.
        """
        program = os.environ.get("PINTLE_BIN") or shutil.which("pintle")
        if program is None:
            raise RuntimeError("there is no `pintle` on the PATH: install it, or name the program by the environment variable PINTLE_BIN")
        self._folder = tempfile.TemporaryDirectory(prefix="pintle-dev-")
        folder = Path(self._folder.name)
        self._log_path = folder / "log"
        ready = folder / "ready.json"
        command = [program, "dev", "--stop-with-stdin", f"--ready-file={ready}", f"--kubeconfig={folder / 'kubeconfig'}"]
        command += [f"--admin-socket={folder / 'admin.sock'}", *(f"--plugin={plugin}" for plugin in plugins), *flags]
        self._log: IO[bytes] = self._log_path.open("wb")
        try:
            # The pipe ends with this process, whatever ends it, and with it `pintle dev`.
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self._log, stderr=self._log)
        except OSError as error:
            self._log.close()
            self._folder.cleanup()
            raise RuntimeError(f"cannot start {program}: {error}") from None
        try:
            self._await(ready, timeout)
            #: What `--ready-file` contains.
            self.ready: dict[str, Any] = json.loads(ready.read_text(encoding="utf-8"))
            if "error" in self.ready:
                raise RuntimeError(f"a plugin does not run: {self.ready['error']}")
            #: The kubeconfig, for kubectl and clients.
            self.kubeconfig = Path(self.ready["kubeconfig"])
            self._connect()
        except BaseException:
            self.stop()
            raise
        self._resources: dict[str, tuple[str, bool]] = {}

    def __enter__(self) -> Dev:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _await(self, ready: Path, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not ready.exists():
            if self._process.poll() is not None:
                raise RuntimeError(f"`pintle dev` ended:\n{self.log()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"`pintle dev` is not ready after {timeout} s:\n{self.log()}")
            time.sleep(_PAUSE_SECONDS)

    def _connect(self) -> None:
        text = self.kubeconfig.read_text(encoding="utf-8")

        def field(name: str) -> str:
            # One field a line, as `pintle dev` writes it.
            found = re.search(rf"^ *(?:- )?{name}: *[\"']?([^\"'\n]+)", text, re.MULTILINE)
            if found is None:
                raise RuntimeError(f"{self.kubeconfig} is not a kubeconfig of `pintle dev`: it has no {name}")
            return found[1]

        self._tls = ssl.create_default_context(cadata=base64.b64decode(field("certificate-authority-data")).decode())
        # The library reads certificates from files only.
        pem = Path(self._folder.name) / "client.pem"
        pem.touch(mode=0o600)
        pem.write_bytes(base64.b64decode(field("client-certificate-data")) + base64.b64decode(field("client-key-data")))
        self._tls.load_cert_chain(pem)
        self._server = urlsplit(field("server"))

    def log(self) -> str:
        """What it has printed so far: the lines of the plugins are among them."""
        return self._log_path.read_text(encoding="utf-8", errors="replace")

    def stop(self) -> None:
        """Ends it; does nothing if it has ended."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        self._folder.cleanup()

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """Sends a request to the API server, and returns its answer as JSON. Raises ApiError."""
        connection = http.client.HTTPSConnection(self._server.hostname or "", self._server.port, context=self._tls, timeout=60)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": content_type, "Accept": "application/json"})
            response = connection.getresponse()
            answer = response.read().decode()
        finally:
            connection.close()
        if response.status < 300:
            return json.loads(answer)
        try:
            status = json.loads(answer)
        except ValueError:
            status = {}
        raise ApiError(response.status, status.get("reason", ""), status.get("message", answer))

    def apply(self, object: dict[str, Any]) -> dict[str, Any]:
        """Creates or changes an object, as `kubectl apply --server-side --force-conflicts`. Returns it."""
        meta = object["metadata"]
        path = self._path(f"{object['apiVersion']}/{object['kind']}", meta["name"], meta.get("namespace", ""))
        applied: dict[str, Any] = self.request("PATCH", f"{path}?fieldManager=test&force=true", object, "application/apply-patch+yaml")
        return applied

    def get(self, kind: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        """An object, or None. `kind` is as in the manifest: `apps/v1/Deployment`."""
        path = self._path(kind, name, namespace)
        try:
            found: dict[str, Any] = self.request("GET", path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        return found

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        """Deletes an object, as `kubectl delete --wait=false`."""
        self.request("DELETE", self._path(kind, name, namespace))

    def wait(
        self, kind: str, name: str, namespace: str = "", until: Callable[[dict[str, Any] | None], bool] = lambda object: object is not None, timeout: float = 60
    ) -> dict[str, Any] | None:
        """Waits until the object, None if there is none, fulfils the condition: by default until it exists. Returns it.

        Raises TimeoutError, with the object and the log, after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while not until(found := self.get(kind, name, namespace)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{kind} {namespace}/{name} is not as expected after {timeout} s: {json.dumps(found, indent=2)}\n{self.log()}")
            time.sleep(_PAUSE_SECONDS)
        return found

    def _path(self, kind: str, name: str, namespace: str) -> str:
        version, _, kind_name = kind.rpartition("/")
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if kind not in self._resources:
            found = [resource for resource in self.request("GET", root)["resources"] if resource["kind"] == kind_name and "/" not in resource["name"]]
            if not found:
                raise ApiError(404, "NotFound", f"the API server does not serve {kind}")
            self._resources[kind] = (found[0]["name"], found[0]["namespaced"])
        plural, is_namespaced = self._resources[kind]
        scope = f"/namespaces/{quote(namespace or 'default', '')}" if is_namespaced else ""
        return f"{root}{scope}/{plural}/{quote(name, '')}"
