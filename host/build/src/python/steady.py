# What Python begins with while a component is made. `pintle build` writes it as the module `encodings`, which Python imports before any
# other file, and puts the number of folders in place of the word in capitals.
#
# The component is the memory that the build leaves, so nothing may get there that differs from machine to machine: the order of the files
# in a folder, their times, the clock. `steady.wat` does the same for what is not Python.

import _frozen_importlib_external as files
import _imp
import gc
import posix
import sys
import time


class Loader(files.SourceFileLoader):
    """Reads sources alone, and nothing about them: objects of `io` keep times and numbers of files."""

    def path_stats(self, path):
        raise OSError

    def get_data(self, path):
        file = posix.open(path, posix.O_RDONLY)
        try:
            parts = []
            while part := posix.read(file, 1 << 20):
                parts.append(part)
            return b"".join(parts)
        finally:
            posix.close(file)


def is_there(path):
    try:
        posix.close(posix.open(path, posix.O_RDONLY))
    except OSError:
        return False
    return True


class Finder:
    """Finds modules without listing folders."""

    find_distributions = files.PathFinder.find_distributions
    invalidate_caches = files.PathFinder.invalidate_caches

    @staticmethod
    def find_spec(name, path=None, target=None):
        last = name.rpartition(".")[2]
        for folder in sys.path if path is None else path:
            place = f"{folder}/{last}"
            for file, inside in ((f"{place}/__init__.py", [place]), (f"{place}.py", None)):
                if is_there(file):
                    loader = Loader(name, file)
                    return files.spec_from_file_location(name, file, loader=loader, submodule_search_locations=inside)
            # A folder without `__init__.py`, or compiled code.
            if any(is_there(place + end) for end in ("", *_imp.extension_suffixes())):
                return files.PathFinder.find_spec(name, path, target)
        return None


def end():
    """After the last import of what the component is made of."""
    sys.path_importer_cache.clear()
    # Its generator began with chance.
    sys.modules["random"].seed(0)
    tidy()


def release():
    """Ends the clearing of memory, which takes time in each run."""
    try:
        _imp.create_dynamic(files._bootstrap.ModuleSpec("pintle_steady", None, origin="/0/pintle_steady.abi3.so"))
    except SystemError:
        # It is a call and no module.
        pass


def tidy():
    """Puts zeros where nothing is any more: what is left in memory would be in the component."""
    gc.collect()
    for size in (*range(32, 1024, 16), *(1 << n for n in range(10, 21))):
        zeros = [bytes(size - 21) for _ in range(min(2048, (6 << 20) // size))]
        del zeros


for _name in ("monotonic", "perf_counter", "process_time", "thread_time", "time"):
    if hasattr(time, _name):
        setattr(time, _name, lambda: 0.0)
        setattr(time, f"{_name}_ns", lambda: 0)

sys.path[:] = ["/python", "/world", *(f"/{n}" for n in range(FOLDERS)), "/bundled"]
sys.meta_path[sys.meta_path.index(files.PathFinder)] = Finder
sys.modules["pintle_steady"] = sys.modules.pop("encodings")
import encodings
