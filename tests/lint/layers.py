"""Checks that every #include goes to the same folder or to a lower one (docs/architecture.md)."""

import pathlib
import re
import sys

# Folder -> folders it may include, beside itself. Low to high.
CORE = ["base", "tensor", "graph", "train", "aggregate", "round", "strategy", "protocol"]
ALLOWED = {
    "core/base": [],
    "core/tensor": ["core/base"],
    "core/graph": ["core/base", "core/tensor"],
    "core/train": ["core/base", "core/tensor", "core/graph"],
    "core/aggregate": ["core/base", "core/tensor", "core/graph", "core/train"],
    "core/round": ["core/base", "core/tensor", "core/graph", "core/train", "core/aggregate"],
}
ALLOWED["core/strategy"] = ALLOWED["core/round"] + ["core/round"]
ALLOWED["core/protocol"] = ALLOWED["core/strategy"] + ["core/strategy"]
ALL_CORE = [f"core/{part}" for part in CORE]
ALLOWED["storage"] = ALL_CORE
ALLOWED["certs"] = ["core/base"]
ALLOWED["edge_client"] = ALL_CORE + ["certs"]
ALLOWED["server"] = ALL_CORE + ["storage", "certs"]
# The operator's commands are a client: they use the client's transport.
ALLOWED["server/cli"] = ALLOWED["server"] + ["server", "edge_client"]
# Examples and command lines stand above their library.
ALLOWED["edge_client/cli"] = ALLOWED["edge_client"] + ["edge_client"]
ALLOWED["edge_client/examples"] = ALLOWED["edge_client"] + ["edge_client"]
ALLOWED["core/examples"] = ALL_CORE

# A third-party library is met in few places.
LIBRARIES = {
    "SQLiteCpp/": ["storage"],
    "sqlite3.h": ["storage"],
    "openssl/": ["core/base", "certs", "server", "edge_client"],
    "httplib.h": ["edge_client"],
    "asio": ["server"],
    "Eigen/": [],
    "CLI/": ["server/cli", "edge_client/cli"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def folder_of(path: str) -> str:
    """The longest folder of the rules that holds the file."""
    parts = path.split("/")
    for size in (2, 1):
        folder = "/".join(parts[:size])
        if folder in ALLOWED and len(parts) > size:
            return folder
    return parts[0]


def main() -> int:
    findings = []
    for file in sorted(pathlib.Path(".").glob("*/**/*")):
        name = str(file)
        if file.suffix not in (".h", ".cc") or name.split("/")[0] not in ("core", "storage", "certs", "server", "edge_client"):
            continue
        home = folder_of(name)
        for ours, theirs in INCLUDE.findall(file.read_text()):
            if ours:
                target = folder_of(ours)
                if "/" not in ours:
                    findings.append(f'{name}: include "{ours}" from the root of the repository')
                elif target != home and target not in ALLOWED.get(home, []):
                    findings.append(f"{name}: {home} may not use {target} ({ours})")
            for library, places in LIBRARIES.items():
                if theirs.startswith(library) and not any(home == p or home.startswith(p + "/") for p in places):
                    findings.append(f"{name}: <{theirs}> is met only in {', '.join(places)}")
    print("\n".join(findings), end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
