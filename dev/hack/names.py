"""`python -m dev.hack.names`: list names of functions, arguments and variables that do not say what they are.

CONTRIBUTING.md#conventions says what a name is like. Five kinds are counted:

- `participle`: functions named by a past participle alone (`shown`, `kept`), unless they return a bool
- `phrase`: functions whose name begins with a preposition (`at_rest`)
- `filler`: names that are a filler (`of`, `what`, `one`)
- `vague`: variables and arguments named by a participle or a question (`made`, `given`, `where`)
- `place`: names with "place" for anything but a place for a pod; a position in a document is a path or a location

The exit code is 1 if there are more names of a kind than `LIMITS`.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMITS = {"participle": 25, "filler": 25, "vague": 25, "place": 2, "phrase": 7}
"""Largest number of names of each kind."""

IRREGULAR = frozenset(
    """
    begun blown bought bound broken brought built caught chosen drawn fed felt flown fought found given gone grown
    heard held hidden kept known laid led left lost made meant met paid said seen sent shown sold sought spent
    spoken stood sworn taken taught thought thrown told torn understood woken won worn wound written
    """.split()  # noqa: SIM905 (a list of words reads better)
)
NO_PARTICIPLES = {"embed", "exceed", "feed", "need", "proceed", "seed", "speed", "succeed"}
FILLERS = frozenset(
    "by from its news of one ones others rest stuff thing things till unto upon way what whose".split()  # noqa: SIM905
)

VAGUE = frozenset("asked begun given lack lacks made said taken told where who why".split())  # noqa: SIM905
PHRASE = re.compile(r"_*(?!in_place)(?:after|at|before|beside|beyond|in|of|out|under|until|within)_")
FILES_OF_PLACES = ("spare", "placeholder", "give_places", "pod_writes", "execute")
"""Parts of the names of files in which "place" means a place for a pod."""


def is_participle(name: str) -> bool:
    """Whether the whole name is one past participle."""
    return name in IRREGULAR or (re.fullmatch(r"[a-z]{3,}ed", name) is not None and name not in NO_PARTICIPLES)


def vague_names(tree: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Yield the kind, the name and the line of each vague name."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if is_participle(node.name.strip("_")) and not _is_predicate(node):
                    yield "participle", node.name, node.lineno
                if PHRASE.match(node.name):
                    yield "phrase", node.name, node.lineno
                arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                names = [(node.name, node.lineno), *((each.arg, each.lineno) for each in arguments)]
            case ast.Name(ctx=ast.Store()):
                names = [(node.id, node.lineno)]
            case _:
                continue
        for name, line in names:
            word = name.strip("_")
            if word in FILLERS:
                yield "filler", name, line
            if word in VAGUE:
                yield "vague", name, line
            if re.fullmatch(r"(?!.*in_place)(.*_)?places?(_.*)?", word.lower()):
                yield "place", name, line


def _is_predicate(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    returns = ast.unparse(function.returns) if function.returns else ""
    return returns.startswith(("bool", "TypeGuard", "TypeIs"))


def program_files() -> list[Path]:
    """The Python files outside of tests."""
    folders = [path for path in ROOT.iterdir() if path.is_dir() and path.name not in {"build", "dist", "tests"}]
    return sorted(file for folder in folders if folder.name[0] != "." for file in folder.rglob("*.py"))


def main() -> int:
    names_by_kind: dict[str, list[str]] = {kind: [] for kind in LIMITS}
    for file in program_files():
        for kind, name, line in vague_names(ast.parse(file.read_text(encoding="utf-8"))):
            if kind != "place" or not any(part in file.stem for part in FILES_OF_PLACES):
                names_by_kind[kind].append(f"{file.relative_to(ROOT)}:{line}: {name}")
    too_many = {kind: names for kind, names in names_by_kind.items() if len(names) > LIMITS[kind]}
    for kind, names in too_many.items():
        sentence = f"{len(names)} names of the kind {kind}, and at most {LIMITS[kind]} may be: rename some"
        print(*names, sentence, sep="\n")  # noqa: T201
    return 1 if too_many else 0


if __name__ == "__main__":
    sys.exit(main())
