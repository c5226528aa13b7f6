"""`../README.md` describes this controller."""

import json
import os
import secrets
import socket
import time

import wit_world
from componentize_py_types import Err
from wit_world.imports.types import (
    Action_Create,
    Create,
    Kind,
    Mutation,
    ObjectKey,
    Order,
    Outcome,
    ReconcileError_Terminal,
    Step,
)

CONFIG_MAP = Kind("", "v1", "ConfigMap")


class WitWorld(wit_world.WitWorld):
    def reconcile(self, key, lister):
        with lister:
            text = lister.get(key.kind, key.object)
            if text is None:
                return outcome([])
            name = key.object.name
            namespace = json.loads(text)
            metadata = namespace["metadata"]
            if "deletionTimestamp" in metadata or lister.get(CONFIG_MAP, ObjectKey(name, "badge")) is not None:
                return outcome([])
            print(f"a badge for {name}")
            data = {
                "now": lister.now(),
                "clock": str(time.time_ns() // 1_000_000),
                "random": secrets.token_hex(8),
            }
            match metadata.get("labels", {}).get("badge"):
                case "exit":
                    os._exit(3)
                case "file":
                    data["file"] = attempt(lambda: open("/etc/hostname"))
                case "network":
                    data["network"] = attempt(lambda: socket.socket().connect(("127.0.0.1", 443)))
            badge = json.dumps({"metadata": {"name": "badge"}, "data": data})
            mutation = Mutation(Action_Create(Create(CONFIG_MAP, name, badge, None)), None, None, [])
            return outcome([Step(Order.SEQUENTIAL, [mutation], False)])


def attempt(action):
    try:
        action()
        return "opened"
    except OSError as error:
        return str(error)


def outcome(steps):
    return Outcome([], steps, None, [], [], [], [], None)
