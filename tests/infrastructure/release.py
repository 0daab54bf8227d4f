"""Makes a release for this machine from binaries that are built already, and checks its files."""

import hashlib
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from deployment import FUNCTIONS, INFRA
from release_image import BUNDLE, HttpsEndpoint, ImageRoot, ReleaseImage, self_signed_certificate

sys.path.append(str(INFRA))
from image import layer_of

ROOT = INFRA.parent
PROGRAMS = ["afterwrite", *FUNCTIONS]
# A program without a C library. The note is that of glibc's start-up code.
STATIC_PROGRAM = "void _start(void) {}"
GLIBC_NOTE = 'asm(".section .note.ABI-tag,\\"a\\",@note\\n.long 4, 16, 1, 0x00554e47, 0, 3, 2, 0");'


class Release:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.architecture = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86-64"
        self.key = self.folder / "release.pem"
        # The command line as a release builds it. Nothing runs the functions: small programs are compressed in no time.
        self.binaries = self.folder / "binaries"
        self.small = self.folder / "small"

    def check(self):
        self.prepare()
        first, second = self.make("first", self.small), self.make("second", self.small)
        assert first == second, "the same inputs give other bytes"
        out = self.folder / "release"
        self.make(out.name, self.binaries)
        listed = dict(reversed(line.split("  ")) for line in (out / "SHA256SUMS").read_text().splitlines())
        assert len(listed) == 1 + 1 + len(FUNCTIONS), sorted(listed)
        for name, digest in listed.items():
            assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest, name
        self.check_signature(out)
        self.check_bill(out)
        self.check_command_line(out)
        self.check_repackaging(out)
        self.check_refusal()
        self.check_refused_folders(out)
        self.check_refused_binaries()
        self.check_refused_key()
        self.check_target()
        self.check_image()
        print(f"release: {len(listed)} files for {self.architecture}, twice the same")

    def prepare(self):
        """Programs without debug information, as a release builds them, and a key."""
        program = (self.static_programs("small") / "afterwrite").read_bytes()
        self.binaries.mkdir()
        for folder, function in itertools.product([self.small, self.binaries], FUNCTIONS):
            (folder / function).write_bytes(program + function.encode())
        built = Path(os.environ["AFTERWRITE_TEST_BIN_DIR"])
        subprocess.run(["strip", "-o", self.binaries / "afterwrite", built / "afterwrite"], check=True)
        subprocess.run(
            ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", self.key],
            check=True,
            capture_output=True,
        )

    def make(self, name, binaries):
        """Makes the release; returns the digests of its files, apart from the signature, which is random."""
        out = self.folder / name
        self.release(0, binaries, "--only", "cli", "functions", "sbom", "--key", self.key, "--out", out)
        files = [file for file in out.rglob("*") if file.is_file() and file.suffix != ".sig"]
        return {str(file.relative_to(out)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    def release(self, code, binaries, *options):
        """Runs infra/release with binaries that are built already; returns its output."""
        command = [sys.executable, "-B", ROOT / "infra/release", "--architecture", self.architecture]
        command += ["--prebuilt", f"{self.architecture}={binaries}", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, f"exit code {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

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
        description = json.loads((zips / "model.json").read_text())
        assert description["name"] == "glad" and description["architecture"] == self.architecture.replace("-", "_"), description
        for function in FUNCTIONS:
            with zipfile.ZipFile(zips / f"{function}.zip") as package:
                assert sorted(package.namelist()) == ["bootstrap", "model.toml"], package.namelist()
                assert package.read("bootstrap") == (self.binaries / function).read_bytes(), function
        self.check_damage(out)

    def check_damage(self, out):
        """A file of the release that is damaged or missing is refused before anything is written."""
        damaged = self.folder / "damaged"
        shutil.copytree(out, damaged)
        zipped = damaged / "functions" / self.architecture / "relay.zip"
        command = [ROOT / "infra/build", "--model", "glad", "--release", damaged, "--out", self.folder / "refused"]
        command.append("--arm64" if self.architecture == "arm64" else "--x86-64")
        zipped.write_bytes(zipped.read_bytes() + b"x")
        assert "relay.zip does not have the checksum" in self.run_without_rust(command, 3)
        zipped.unlink()
        assert "has no functions" in self.run_without_rust(command, 3)
        other = {"arm64": "x86-64", "x86-64": "arm64"}[self.architecture]
        shown = self.run_without_rust([*command[:-1], f"--{other}"], 3)
        assert f"has no functions for {other}, and has some for {self.architecture}: pass --{self.architecture}" in shown, shown
        (damaged / "SHA256SUMS").unlink()
        assert "has no SHA256SUMS" in self.run_without_rust(command, 3)
        assert not (self.folder / "refused").exists()

    def check_refusal(self):
        """What this machine lacks is named before anything is built, with the way to get it."""
        refused = self.run_without_rust([ROOT / "infra/release", "--out", self.folder / "refused"], 3)
        for needed in ["rustup target add aarch64-unknown-linux-musl", "rustup target add x86_64-unknown-linux-musl", "rustup.rs", "cargo-zigbuild"]:
            assert needed in refused, refused
        assert not (self.folder / "refused").exists()
        self.check_refusal_without_zig()
        refused = self.run_without_rust([ROOT / "infra/build", "--model", "glad", "--out", self.folder / "refused"], 3)
        assert "cargo is missing" in refused and "--release DIR" in refused, refused
        assert not (self.folder / "refused").exists()

    def check_refusal_without_zig(self):
        """cargo-zigbuild alone compiles nothing."""
        zigbuild = self.folder / "tools/cargo-zigbuild"
        zigbuild.symlink_to(shutil.which("true"))
        refused = self.run_without_rust([ROOT / "infra/release", "--only", "cli", "--out", self.folder / "refused"], 3)
        zigbuild.unlink()
        assert "zig, the C compiler that cargo-zigbuild uses" in refused and "cargo-zigbuild, which" not in refused, refused

    def check_refused_folders(self, out):
        """A release replaces an earlier one, and nothing else."""
        self.release(0, self.binaries, "--only", "sbom", "--out", out)
        left = sorted(file.name for file in out.rglob("*"))
        assert len(left) == 2 and left[0] == "SHA256SUMS", left
        notes = out / "notes.txt"
        notes.write_text("mine")
        shown = self.release(2, self.binaries, "--only", "sbom", "--out", out)
        assert "has notes.txt, which no earlier release made" in shown, shown
        shown = self.release(2, self.binaries, "--only", "sbom", "--out", notes)
        assert "notes.txt is a file: name a folder" in shown, shown
        without_sums = self.folder / "without-sums"
        without_sums.mkdir()
        self.release(0, self.binaries, "--only", "sbom", "--out", without_sums)
        (without_sums / "SHA256SUMS").unlink()
        shown = self.release(2, self.binaries, "--only", "sbom", "--out", without_sums)
        assert ".cdx.json, which no earlier release made" in shown, shown
        assert notes.read_text() == "mine" and len(list(without_sums.iterdir())) == 1
        self.check_failure(self.folder / "second")

    def check_failure(self, out):
        """A release that fails leaves the earlier one, and nothing next to it."""
        before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
        folders = sorted(self.folder.iterdir())
        empty = self.folder / "empty"
        empty.mkdir(exist_ok=True)
        for name in PROGRAMS:
            # The header of an executable, whose segments are past the end of the file.
            (empty / name).write_bytes((self.binaries / name).read_bytes()[:64])
        self.release(1, empty, "--only", "sbom", "cli", "--out", out)
        shutil.rmtree(empty)
        assert before == {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
        assert folders == sorted(self.folder.iterdir()), sorted(self.folder.iterdir())

    def check_refused_binaries(self):
        """Programs that are built for another architecture, or not for Linux."""
        others = self.folder / "others"
        others.mkdir()
        machine = {"arm64": b"\x3e\x00", "x86-64": b"\xb7\x00"}[self.architecture]
        for name in FUNCTIONS:
            program = (self.binaries / name).read_bytes()
            (others / name).write_bytes(program[:18] + machine + program[20:])
        (others / "relay").write_bytes(b"#!/bin/sh\n")
        shown = self.release(3, others, "--only", "functions", "--out", self.folder / "refused")
        other = {"arm64": "x86-64", "x86-64": "arm64"}[self.architecture]
        assert f"{others / 'aggregator'} for {self.architecture}, as --prebuilt states: it is built for {other}" in shown, shown
        assert f"{others / 'relay'} for {self.architecture}, as --prebuilt states: it is not a 64-bit executable" in shown, shown
        assert not (self.folder / "refused").exists()

    def check_refused_key(self):
        """A key that cannot sign is refused before anything is made."""
        damaged = self.folder / "damaged.pem"
        damaged.write_text(self.key.read_text().replace("M", "N"))
        shown = self.release(3, self.binaries, "--only", "sbom", "--key", damaged, "--out", self.folder / "refused")
        assert f"a private key in {damaged} that openssl can sign with" in shown, shown
        assert not (self.folder / "refused").exists()

    def check_target(self):
        """An archive is named by the C library of its binary, also where that is a part of it."""
        for note, c_library in [("", "musl"), (GLIBC_NOTE, "gnu")]:
            programs = self.static_programs(f"{c_library}-programs", note)
            self.release(0, programs, "--only", "cli", "--out", self.folder / c_library)
            [archive] = (self.folder / c_library).glob("*.tar.gz")
            assert archive.name.endswith(f"-unknown-linux-{c_library}.tar.gz"), archive.name

    def static_programs(self, name, note=""):
        """A folder with a static program in the place of the command line; it is not run."""
        folder = self.folder / name
        folder.mkdir()
        compiler = ["cc", "-nostdlib", "-static", "-x", "c", "-", "-o", folder / "afterwrite"]
        subprocess.run(compiler, input=f"{note}{STATIC_PROGRAM}\n", text=True, check=True)
        return folder

    def check_image(self):
        """The image of a release, and the command line in an image."""
        certificate, key = self_signed_certificate(self.folder)
        trusted = ["--certificates", certificate]
        programs, images = self.static_programs("image-programs"), []
        for out in [self.folder / "image-1", self.folder / "image-2"]:
            self.release(0, programs, "--only", "image", *trusted, "--out", out)
            [made] = out.glob("*.tar")
            images.append(made.read_bytes())
        assert images[0] == images[1], "the same inputs give other bytes"
        image = self.checked_image(images[0], f"afterwrite:{made.name.removeprefix('afterwrite-').partition('-image-')[0]}-{self.architecture}")
        assert image.file("afterwrite") == (programs / "afterwrite").read_bytes()
        assert image.file(BUNDLE) == certificate.read_bytes()
        self.check_image_refusals(trusted)
        with HttpsEndpoint(certificate, key) as endpoint:
            self.check_image_runs(certificate, endpoint)

    def check_image_refusals(self, trusted):
        """No image is made that could not start, or that would trust nobody."""
        refused = self.folder / "refused"
        shown = self.release(3, ROOT / "tests", "--only", "image", *trusted, "--out", refused)
        assert f"{ROOT / 'tests/afterwrite'}, for --prebuilt" in shown, shown
        dynamic = self.folder / "dynamic"
        dynamic.mkdir()
        subprocess.run(["cc", "-x", "c", "-", "-o", dynamic / "afterwrite"], input="int main(void) { return 0; }\n", text=True, check=True)
        shown = self.release(3, dynamic, "--only", "image", "--certificates", self.key, "--out", refused)
        assert f"a static {dynamic / 'afterwrite'}" in shown and "the certificates of the image" in shown, shown
        assert not refused.exists()

    def check_image_runs(self, certificate, endpoint):
        """The tests' own command line in an image: it starts, trusts the image's certificates alone, and has a temporary folder."""
        root = ImageRoot(layer_of((self.binaries / "afterwrite").read_bytes(), b"licence", certificate.read_bytes()), self.folder / "root")
        code, shown = root.run("--version")
        assert code == 0 and shown.startswith("afterwrite "), shown
        code, shown = root.run("demo", "--attempts", "20")
        assert code == 0 and (root.folder / "tmp/afterwrite-demo").is_dir(), shown
        settings = {"AWS_ENDPOINT_URL_DYNAMODB": endpoint.url, "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        code, shown = root.run("model", "init", "--table", "Orders", **settings)
        assert code == 2 and "no such table" in shown, shown
        with tempfile.TemporaryDirectory() as folder:
            another, _ = self_signed_certificate(folder)
            (root.folder / BUNDLE).write_bytes(another.read_bytes())
        code, shown = root.run("model", "init", "--table", "Orders", **settings)
        assert code == 3 and "invalid peer certificate" in shown, shown
        assert endpoint.requests == ["DynamoDB_20120810.DescribeTable"], endpoint.requests

    @property
    def docker_architecture(self):
        return {"arm64": "arm64", "x86-64": "amd64"}[self.architecture]

    def checked_image(self, data, name):
        image = ReleaseImage(data)
        image.check(name, self.docker_architecture)
        return image

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
