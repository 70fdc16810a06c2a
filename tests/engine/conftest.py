"""Where there is no CUDA, triton's interpreter runs the kernels; here it learns to do work once, and bfloat16."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def language_replaced_once_per_launch() -> Iterator[None]:
    """A third of the interpreter's time: it replaces triton's language again for every function that a kernel calls."""
    if os.environ.get("TRITON_INTERPRET") != "1" or find_spec("triton") is None:
        yield
        return
    from triton.runtime.interpreter import GridExecutor, InterpretedFunction

    replaced: set[int] = set()
    launch, call = GridExecutor.__call__, InterpretedFunction.__call__

    def launch_anew(self: Any, *args: Any, **kwargs: Any) -> Any:
        replaced.clear()
        return launch(self, *args, **kwargs)

    def call_directly(self: Any, *args: Any, **kwargs: Any) -> Any:
        module = id(self.fn.__globals__)
        if module in replaced:
            return self.rewrite()(*args, **kwargs)
        replaced.add(module)
        return call(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GridExecutor, "__call__", launch_anew)
        patch.setattr(InterpretedFunction, "__call__", call_directly)
        yield


@pytest.fixture(scope="session", autouse=True)
def factors_in_bfloat16_are_numbers() -> Iterator[None]:
    """The interpreter keeps bfloat16 as its bits, and multiplies those as integers."""
    if os.environ.get("TRITON_INTERPRET") != "1" or find_spec("triton") is None:
        yield
        return
    from triton import language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, _convert_float

    create = InterpreterBuilder.create_dot

    def number(handle: Any) -> Any:
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        return TensorHandle(_convert_float(handle.data, tl.bfloat16, tl.float32, None).view("float32"), tl.float32)

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        return create(self, number(a), number(b), *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InterpreterBuilder, "create_dot", create_dot)
        yield
