# The module that an interpreter image begins with. `pintle build` writes it, with the names of modules in place of the words in capitals.
#
# The image is a component in whose memory Python, the SDK and the libraries are loaded. Its function `load` adds the author's modules; the
# memory after that is the plugin's component.

import importlib
import importlib.machinery
import json
import sys

import pintle_steady
import wit_world
from componentize_py_types import Err

# The SDK comes first: it says what is wrong with what the author's module must not do.
from pintle import component

#: Folder of the author's modules, as it stands in places of errors.
OWN = "/app/"

for _name in LIBRARIES:
    try:
        importlib.import_module(_name)
    except Exception:
        # Told when the author's module asks for it.
        pass


class Own:
    """The author's modules, from their texts by path."""

    def __init__(self, files):
        self.files = files

    def find_spec(self, name, path=None, target=None):
        stem = name.replace(".", "/")
        for end in ("/__init__.py", ".py"):
            if stem + end in self.files:
                is_package = end != ".py"
                spec = importlib.machinery.ModuleSpec(name, self, origin=OWN + stem + end, is_package=is_package)
                spec.has_location = True
                if is_package:
                    spec.submodule_search_locations = [OWN + stem]
                return spec
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        path = module.__spec__.origin
        exec(compile(self.files[path[len(OWN) :]], path, "exec", dont_inherit=True), module.__dict__)


def told(error, files):
    """As Python prints it, for the author's files alone. Its own function would look for the others, and there are no files."""
    lines = ["Traceback (most recent call last):"]

    def place(path, line, where):
        if path is not None and path.startswith(OWN):
            path = path[len(OWN) :]
            lines.append(f'  File "{path}", line {line}{where}')
            text = files.get(path, "").splitlines()
            if line is not None and 0 < line <= len(text):
                lines.append("    " + text[line - 1].strip())

    step = error.__traceback__
    while step is not None:
        place(step.tb_frame.f_code.co_filename, step.tb_lineno, f", in {step.tb_frame.f_code.co_name}")
        step = step.tb_next
    message = str(error)
    if isinstance(error, SyntaxError):
        place(error.filename, error.lineno, "")
        message = error.msg
    return "\n".join([*lines, f"{type(error).__name__}: {message}"])


class WitWorld(wit_world.WitWorld):
    def load(self, text):
        given = json.loads(text)
        files = given["files"]
        own = Own(files)
        # There are no files to look for modules in.
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not pintle_steady.Finder] + [own]
        try:
            author = importlib.import_module(given["module"])
            WitWorld.reconcile = component.world(author).reconcile
            if MAPS:
                Mapping.keys_of = component.mapping(author).keys_of
        except ModuleNotFoundError as error:
            raise Err(f"missing: {error}") from None
        except BaseException as error:
            raise Err(told(error, files)) from None
        own.files = {}
        del given, files, text
        pintle_steady.tidy()
        pintle_steady.release()

    def reconcile(self, key, lister):
        raise RuntimeError("no module is loaded")


class Mapping:
    def keys_of(self, kind, old, new, lister):
        raise RuntimeError("no module is loaded")


pintle_steady.end()
