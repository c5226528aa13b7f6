"""What native tests and debuggers use: `debug_case` runs one case, and `pintle.testing.dev` starts `pintle dev`."""

from .debug import debug_case

__all__ = ["debug_case"]
