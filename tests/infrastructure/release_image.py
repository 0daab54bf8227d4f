"""Checks a container image of a release with Python alone: its format, its files, and the command line in it."""

import gzip
import hashlib
import http.server
import io
import json
import os
import ssl
import subprocess
import tarfile
import threading
from pathlib import Path

USER = 65532
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
BUNDLE = "etc/ssl/certs/ca-certificates.crt"
# Path, kind, mode and owner of all that the image holds.
FILES = {
    "LICENSE": ("file", 0o644, 0),
    "afterwrite": ("file", 0o755, 0),
    "etc": ("folder", 0o755, 0),
    "etc/group": ("file", 0o644, 0),
    "etc/passwd": ("file", 0o644, 0),
    "etc/ssl": ("folder", 0o755, 0),
    "etc/ssl/certs": ("folder", 0o755, 0),
    BUNDLE: ("file", 0o644, 0),
    "home": ("folder", 0o755, 0),
    "home/afterwrite": ("folder", 0o755, USER),
    "tmp": ("folder", 0o1777, 0),
}


class ReleaseImage:
    def __init__(self, data):
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            self.files = {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}
        self.layer = b""

    def check(self, name, architecture):
        """The format, as `docker load` and as readers of OCI image layouts see it, and the files of the layer."""
        blobs = {path.rsplit("/", 1)[1]: data for path, data in self.files.items() if path.startswith("blobs/")}
        assert all(hashlib.sha256(data).hexdigest() == digest for digest, data in blobs.items()), sorted(blobs)
        assert self.files["oci-layout"] == b'{"imageLayoutVersion":"1.0.0"}'
        [described] = json.loads(self.files["index.json"])["manifests"]
        manifest = json.loads(self.described(described, "manifest.v1+json"))
        assert described["annotations"]["org.opencontainers.image.ref.name"] == name.partition(":")[2], described
        configuration = self.described(manifest["config"], "config.v1+json")
        [described] = manifest["layers"]
        self.layer = gzip.decompress(self.described(described, "layer.v1.tar+gzip"))
        assert len(blobs) == 3, sorted(blobs)
        [loaded] = json.loads(self.files["manifest.json"])
        assert loaded["RepoTags"] == [name] and self.files[loaded["Config"]] == configuration, loaded
        assert [gzip.decompress(self.files[path]) for path in loaded["Layers"]] == [self.layer], loaded
        self.check_configuration(json.loads(configuration), architecture)
        self.check_layer()

    def described(self, descriptor, kind):
        """The blob that a descriptor names."""
        data = self.files[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert (descriptor["mediaType"], descriptor["size"]) == (f"application/vnd.oci.image.{kind}", len(data)), descriptor
        return data

    def check_configuration(self, configuration, architecture):
        assert (configuration["os"], configuration["architecture"]) == ("linux", architecture), configuration
        layers = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(self.layer).hexdigest()}"]}
        assert configuration["rootfs"] == layers, configuration
        run = configuration["config"]
        assert (run["Entrypoint"], run["User"], run["WorkingDir"]) == (["/afterwrite"], f"{USER}:{USER}", "/home/afterwrite"), run

    def check_layer(self):
        with tarfile.open(fileobj=io.BytesIO(self.layer)) as tar:
            entries = tar.getmembers()
        kinds = {tarfile.REGTYPE: "file", tarfile.DIRTYPE: "folder"}
        held = {entry.name: (kinds[entry.type], entry.mode, entry.uid) for entry in entries}
        assert held == FILES and len(entries) == len(FILES), held
        assert f"afterwrite:x:{USER}:{USER}:" in self.file("etc/passwd").decode()
        assert {entry.mtime for entry in entries} == {0}

    def file(self, path):
        with tarfile.open(fileobj=io.BytesIO(self.layer)) as tar:
            return tar.extractfile(path).read()


class ImageRoot:
    """The files of an image's layer in a folder, and the command line that runs there as in a container."""

    def __init__(self, layer, folder):
        self.folder = Path(folder)
        self.folder.mkdir()
        # Unlike Python's, this reader keeps modes and owners in all versions.
        subprocess.run(["tar", "-xpf", "-", "-C", self.folder], input=layer, check=True)
        self.add_libraries()

    def add_libraries(self):
        """The tests' command line may need the machine's C library, which a released one does not."""
        listed = subprocess.run(["ldd", self.folder / "afterwrite"], capture_output=True, text=True, check=False).stdout
        for library in [word for word in listed.split() if word.startswith("/")]:
            copy = self.folder / library.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(Path(library).read_bytes())
            copy.chmod(0o755)

    def run(self, *arguments, **environment):
        command, settings = self.entry_point()
        environment = {"PATH": PATH, **settings, **environment}
        done = subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False)
        return done.returncode, done.stdout + done.stderr

    def entry_point(self):
        """The command line as the image's user; as a simulated root if the tests may not change users; else without a root of its own."""
        if os.geteuid() == 0:
            return ["chroot", f"--userspec={USER}:{USER}", self.folder, "/afterwrite"], {}
        if subprocess.run(["unshare", "--map-root-user", "true"], capture_output=True, check=False).returncode == 0:
            return ["unshare", "--map-root-user", "chroot", self.folder, "/afterwrite"], {}
        return [self.folder / "afterwrite"], {"SSL_CERT_FILE": str(self.folder / BUNDLE), "TMPDIR": str(self.folder / "tmp")}


def self_signed_certificate(folder):
    """A certificate of 127.0.0.1 that its clients must trust, and its key."""
    certificate, key = Path(folder) / "endpoint.pem", Path(folder) / "endpoint.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=endpoint", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


class HttpsEndpoint:
    """An endpoint of AWS on 127.0.0.1 that knows no table."""

    def __init__(self, certificate, key):
        self.requests = requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers.get("content-length", 0)))
                requests.append(self.headers.get("x-amz-target"))
                body = b'{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException","message":"no such table"}'
                self.send_response(400)
                self.send_header("content-type", "application/x-amz-json-1.0")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f"https://127.0.0.1:{self.server.server_address[1]}"
