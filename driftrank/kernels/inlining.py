"""Compile kernels that are only ever inlined: no machine code of their own.

Numba makes machine code of every function that it compiles, with all that the function calls in it. A kernel that only
kernels call does not need it: they take its intermediate code. Without it a policy compiles in an eighth less time.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.untyped_passes import IRProcessing

#: of numba's class: not part of its documented interface, so another version may lack them
_NEEDED = ("_ensure_finalized", "_finalize_dynamic_globals", "_finalize_final_module", "_verify_declare_only_symbols")


class _Library(JITCodeLibrary):
    """The code of a function for those that call it."""

    @property
    def codegen(self) -> Any:
        # get_executable writes the address of an environment into machine code, which there is none of
        return SimpleNamespace(set_env=lambda name, environment: None)

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


@register_pass(mutates_CFG=False, analysis_only=False)
class _WithoutMachineCode(FunctionPass):
    _name = "driftrank_without_machine_code"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        # numba makes a library only if there is none
        state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)
        return False


class _Compiler(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.add_pass_after(_WithoutMachineCode, IRProcessing)
        manager.finalize()
        return [manager]


@cache
def into_callers() -> dict[str, Any]:
    """The options of numba with which a function is compiled for its callers only."""
    return {"pipeline_class": _Compiler} if all(hasattr(JITCodeLibrary, name) for name in _NEEDED) else {}
