"""Builds the wheel and the source archive, with nothing but Python: for pip, and for `python3 build_backend.py DIRECTORY`.

The same files make the same bytes, whoever builds them, when and where: times, owners, modes and the order are fixed. Entries
are not compressed, because different versions of zlib compress differently.
"""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import io
import os
import re
import sys
import tarfile
import zipfile
from typing import Any, Dict, List, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
# The name `pipectl` of the Python package index belongs to another project. Files have an underscore for the hyphen.
NAME = "pipectl_client"
MODULE = "pipectl"
# 1980-01-01, the oldest time of a ZIP file.
FIRST_TIME = (1980, 1, 1, 0, 0, 0)
FIRST_SECONDS = 315_532_800

FIELDS = """\
Metadata-Version: 2.1
Name: pipectl-client
Version: {version}
Summary: Sends JSON records to pipectl: batched, with retries, each record stored once
License: Apache-2.0
Requires-Python: >=3.9
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

{readme}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: pipectl
Root-Is-Purelib: true
Tag: py3-none-any
"""


def build_wheel(
    wheel_directory: str, config_settings: Optional[Dict[str, Any]] = None, metadata_directory: Optional[str] = None
) -> str:
    info = f"{NAME}-{version()}.dist-info"
    files = {name: read(name) for name in module_files()}
    files[f"{info}/METADATA"] = metadata()
    files[f"{info}/WHEEL"] = WHEEL.encode()
    files[f"{info}/LICENSE"] = license_text()
    files[f"{info}/RECORD"] = record_of(files, info)
    name = f"{NAME}-{version()}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_STORED) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, FIRST_TIME)
            entry.external_attr = 0o100644 << 16
            entry.create_system = 3
            archive.writestr(entry, content)
    return name


def build_sdist(sdist_directory: str, config_settings: Optional[Dict[str, Any]] = None) -> str:
    base = f"{NAME}-{version()}"
    files = {name: read(name) for name in [*module_files(), "README.md", "build_backend.py", "pyproject.toml"]}
    files["PKG-INFO"] = metadata()
    files["LICENSE"] = license_text()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{base}/{path}")
            entry.size, entry.mode, entry.mtime = len(content), 0o644, FIRST_SECONDS
            archive.addfile(entry, io.BytesIO(content))
    with open(os.path.join(sdist_directory, f"{base}.tar.gz"), "wb") as file:
        # Level 0 stores the bytes: every zlib makes the same of them.
        with gzip.GzipFile(filename="", mode="wb", compresslevel=0, fileobj=file, mtime=0) as stream:
            stream.write(packed.getvalue())
    return f"{base}.tar.gz"


def version() -> str:
    found = re.search(rb'__version__ = "([^"]+)"', read("pipectl/_version.py"))
    assert found is not None
    return found[1].decode()


def metadata() -> bytes:
    return FIELDS.format(version=version(), readme=read("README.md").decode()).encode()


def module_files() -> List[str]:
    names = sorted(os.listdir(os.path.join(HERE, MODULE)))
    return [f"{MODULE}/{name}" for name in names if name.endswith((".py", ".typed"))]


def read(name: str) -> bytes:
    with open(os.path.join(HERE, *name.split("/")), "rb") as file:
        return file.read()


def license_text() -> bytes:
    """Of the checkout, or of the source archive."""
    for folder in (HERE, os.path.join(HERE, "..", "..")):
        path = os.path.join(folder, "LICENSE")
        if os.path.exists(path):
            with open(path, "rb") as file:
                return file.read()
    raise FileNotFoundError("LICENSE")


def record_of(files: Dict[str, bytes], info: str) -> bytes:
    """The list of the files with their hashes, without its own."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        writer.writerow([path, f"sha256={digest}", len(content)])
    writer.writerow([f"{info}/RECORD", "", ""])
    return text.getvalue().encode()


def main(directory: str) -> None:
    os.makedirs(directory, exist_ok=True)
    for name in (build_sdist(directory), build_wheel(directory)):
        print(os.path.join(directory, name))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "dist")
