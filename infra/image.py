"""Makes the container image of the command line, without docker.

The file is an OCI image layout and what `docker save` writes, in one tar:

    blobs/sha256/DIGEST      the layer, its configuration, and the manifest that names both
    index.json, oci-layout   the way to the manifest: skopeo, umoci, containerd
    manifest.json            the way to the same blobs: docker load, podman load

The only layer has the static binary, its licence, the certificates of the authorities that HTTPS trusts, a user without rights, and
/tmp. The same inputs give the same bytes.
"""

import hashlib
import json

from archives import compressed, file_entry, folder_entry, tar_of

USER = 65532
PASSWD = f"root:x:0:0:root:/:/sbin/nologin\nafterwrite:x:{USER}:{USER}:afterwrite:/home/afterwrite:/sbin/nologin\n"
GROUP = f"root:x:0:\nafterwrite:x:{USER}:\n"
# The same for every build. Docker shows it as the image's age.
CREATED = "1970-01-01T00:00:00Z"
MEDIA_TYPE = "application/vnd.oci.image"


def image_of(layer, name, architecture):
    """The image as a tar. `name` is REPOSITORY:TAG; `architecture` is docker's word for it."""
    blobs = {}
    configuration = add_blob(blobs, "config.v1+json", as_json(configuration_of(layer, architecture)))
    packed = add_blob(blobs, "layer.v1.tar+gzip", compressed(layer))
    manifest = {"schemaVersion": 2, "mediaType": f"{MEDIA_TYPE}.manifest.v1+json", "config": configuration, "layers": [packed]}
    annotations = {
        "io.containerd.image.name": f"docker.io/library/{name}",
        "org.opencontainers.image.ref.name": name.partition(":")[2],
    }
    index = {
        "schemaVersion": 2,
        "mediaType": f"{MEDIA_TYPE}.index.v1+json",
        "manifests": [{**add_blob(blobs, "manifest.v1+json", as_json(manifest)), "annotations": annotations}],
    }
    loaded = {"Config": path_of(configuration["digest"]), "RepoTags": [name], "Layers": [path_of(packed["digest"])]}
    return tar_of(
        [
            folder_entry("blobs"),
            folder_entry("blobs/sha256"),
            *(file_entry(path_of(digest), data) for digest, data in sorted(blobs.items())),
            file_entry("index.json", as_json(index)),
            file_entry("manifest.json", as_json([loaded])),
            file_entry("oci-layout", as_json({"imageLayoutVersion": "1.0.0"})),
        ]
    )


def layer_of(binary, licence, certificates):
    """The files of the image as a tar. The certificates are where rustls looks for them."""
    return tar_of(
        [
            file_entry("LICENSE", licence),
            file_entry("afterwrite", binary, 0o755),
            folder_entry("etc"),
            file_entry("etc/group", GROUP.encode()),
            file_entry("etc/passwd", PASSWD.encode()),
            folder_entry("etc/ssl"),
            folder_entry("etc/ssl/certs"),
            file_entry("etc/ssl/certs/ca-certificates.crt", certificates),
            folder_entry("home"),
            folder_entry("home/afterwrite", owner=USER),
            folder_entry("tmp", 0o1777),
        ]
    )


def configuration_of(layer, architecture):
    return {
        "created": CREATED,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Entrypoint": ["/afterwrite"],
            "WorkingDir": "/home/afterwrite",
            "Labels": {"org.opencontainers.image.title": "afterwrite", "org.opencontainers.image.licenses": "Apache-2.0 OR MIT"},
        },
        "rootfs": {"type": "layers", "diff_ids": [digest_of(layer)]},
        "history": [{"created": CREATED, "created_by": "infra/release"}],
    }


def add_blob(blobs, kind, data):
    """Adds a blob; returns its descriptor."""
    digest = digest_of(data)
    blobs[digest] = data
    return {"mediaType": f"{MEDIA_TYPE}.{kind}", "digest": digest, "size": len(data)}


def path_of(digest):
    return f"blobs/{digest.replace(':', '/')}"


def digest_of(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def as_json(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
