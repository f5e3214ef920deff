"""Outside programs: compilers, linker, objcopy; and what they made, measured."""

from poet_mcu.toolchain.build import compile_program, make_images
from poet_mcu.toolchain.elf import Sizes, check_budget, check_elf, measure
from poet_mcu.toolchain.flags import compile_flags, host_twin, link_flags, link_libraries
from poet_mcu.toolchain.makefile import makefile_fields
from poet_mcu.toolchain.stack import StackUse, check_stack, stack_use
from poet_mcu.toolchain.tools import ToolState, compiler, doctor, find_tool

__all__ = [
    "Sizes",
    "StackUse",
    "ToolState",
    "check_budget",
    "check_elf",
    "check_stack",
    "compile_flags",
    "compile_program",
    "compiler",
    "doctor",
    "find_tool",
    "host_twin",
    "link_flags",
    "link_libraries",
    "make_images",
    "makefile_fields",
    "measure",
    "stack_use",
]
