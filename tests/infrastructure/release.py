"""Makes a release for this machine from binaries that are built already, and checks its files."""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from deployment import FUNCTIONS

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ["afterwrite", *FUNCTIONS]


class Release:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.architecture = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86-64"
        self.key = self.folder / "release.pem"
        self.binaries = self.folder / "binaries"

    def check(self):
        self.prepare()
        first, second = self.make("first"), self.make("second")
        assert first == second, "the same inputs give other bytes"
        out = self.folder / "first"
        listed = dict(reversed(line.split("  ")) for line in (out / "SHA256SUMS").read_text().splitlines())
        assert len(listed) == 1 + 1 + len(FUNCTIONS), sorted(listed)
        for name, digest in listed.items():
            assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest, name
        self.check_signature(out)
        self.check_bill(out)
        self.check_command_line(out)
        self.check_repackaging(out)
        self.check_refusal()
        print(f"release: {len(listed)} files for {self.architecture}, twice the same")

    def prepare(self):
        """Binaries without debug information, as a release builds them, and a key."""
        self.binaries.mkdir()
        built = Path(os.environ["AFTERWRITE_TEST_BIN_DIR"])
        for name in PROGRAMS:
            subprocess.run(["strip", "-o", self.binaries / name, built / name], check=True)
        subprocess.run(
            ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", self.key],
            check=True,
            capture_output=True,
        )

    def make(self, name):
        """Makes the release; returns the digests of its files, apart from the signature, which is random."""
        command = [sys.executable, ROOT / "infra/release", "--only", "cli", "functions", "sbom", "--key", self.key]
        command += ["--architecture", self.architecture, "--prebuilt", f"{self.architecture}={self.binaries}"]
        out = self.folder / name
        done = subprocess.run([*command, "--out", out], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        files = [file for file in out.rglob("*") if file.is_file() and file.suffix != ".sig"]
        return {str(file.relative_to(out)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    def check_signature(self, out):
        public = self.folder / "public.pem"
        subprocess.run(["openssl", "pkey", "-in", self.key, "-pubout", "-out", public], check=True)
        verify = ["openssl", "dgst", "-sha256", "-verify", public, "-signature", out / "SHA256SUMS.sig"]
        assert subprocess.run([*verify, out / "SHA256SUMS"], capture_output=True, check=False).returncode == 0
        changed = self.folder / "changed"
        changed.write_text((out / "SHA256SUMS").read_text().replace("a", "b"))
        assert subprocess.run([*verify, changed], capture_output=True, check=False).returncode != 0, "a changed file is accepted"

    def check_bill(self, out):
        """Every package of the lock file is in the bill, and nothing else; each from a registry with its checksum."""
        bill = json.loads(next(out.glob("*.cdx.json")).read_text())
        assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
        entries = (ROOT / "Cargo.lock").read_text().split("[[package]]")[1:]
        locked = [dict(re.findall(r'^(name|version|checksum) = "(.+)"$', entry, re.MULTILINE)) for entry in entries]
        listed = {(entry["name"], entry["version"]): entry for entry in bill["components"]}
        assert listed.keys() == {(package["name"], package["version"]) for package in locked}
        for package in locked:
            entry = listed[package["name"], package["version"]]
            digests = [digest["content"] for digest in entry.get("hashes", [])]
            assert digests == [package[key] for key in ("checksum",) if key in package], entry
            assert entry["licenses"][0]["expression"], entry
        assert {dependency["ref"] for dependency in bill["dependencies"]} == {entry["bom-ref"] for entry in bill["components"]}

    def check_command_line(self, out):
        with tarfile.open(next(out.glob("afterwrite-*.tar.gz"))) as archive:
            assert archive.getnames() == ["afterwrite", "LICENSE", "README.md"]
            archive.extract("afterwrite", self.folder)
        shown = subprocess.run([self.folder / "afterwrite", "--version"], capture_output=True, text=True, check=True).stdout
        assert re.fullmatch(r"afterwrite \d+\.\d+\.\d+\S*\n", shown), shown

    def check_repackaging(self, out):
        """Without Rust, another model is put into the zips of the release."""
        zips = self.folder / "zips"
        command = [ROOT / "infra/build", "--model", "glad", "--release", out, "--out", zips]
        command.append("--arm64" if self.architecture == "arm64" else "--x86-64")
        self.run_without_rust(command, 0)
        assert json.loads((zips / "model.json").read_text())["name"] == "glad"
        listing = subprocess.run([sys.executable, "-m", "zipfile", "-l", zips / "relay.zip"], capture_output=True, text=True, check=True).stdout
        assert "bootstrap" in listing and "model.toml" in listing, listing

    def check_refusal(self):
        """What this machine lacks is named before anything is built, with the way to get it."""
        refused = self.run_without_rust([ROOT / "infra/release", "--out", self.folder / "refused"], 3)
        for needed in ["rustup target add aarch64-unknown-linux-musl", "rustup target add x86_64-unknown-linux-musl", "rustup.rs", "cargo-zigbuild", "docker"]:
            assert needed in refused, refused
        assert not (self.folder / "refused").exists()
        refused = self.run_without_rust([ROOT / "infra/build", "--model", "glad", "--out", self.folder / "refused"], 3)
        assert "cargo is missing" in refused and "--release DIR" in refused, refused
        assert not (self.folder / "refused").exists()

    def run_without_rust(self, command, code):
        """Runs a command on a machine with Python and the usual tools alone."""
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        for tool in ["bash", "cat", "dirname", "env", "gzip", "mkdir", "mktemp", "rm", "sed", "tar", "uname"]:
            if not (tools / tool).exists():
                (tools / tool).symlink_to(shutil.which(tool))
        if not (tools / "python3").exists():
            (tools / "python3").symlink_to(sys.executable)
        environment = {"PATH": str(tools), "HOME": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, f"exit code {done.returncode}: {done.stdout}{done.stderr}"
        return done.stderr


def check_release():
    assert os.environ.get("AFTERWRITE_TEST_BIN_DIR"), "AFTERWRITE_TEST_BIN_DIR is not set: run tests/run"
    with tempfile.TemporaryDirectory(prefix="afterwrite-release-") as folder:
        Release(folder).check()
