"""The bill of materials of a release: every locked dependency, in the format CycloneDX 1.5."""

import json
import re
import subprocess
import uuid


def bill_of_materials(root, version):
    """The bill as JSON. The same lock file gives the same bytes: it has no time, and its serial number follows from its content."""
    command = ["cargo", "metadata", "--locked", "--all-features", "--format-version", "1"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"release: {' '.join(command)} failed:\n{done.stderr}")
    metadata = json.loads(done.stdout)
    checksums = locked_checksums((root / "Cargo.lock").read_text())
    packages = {package["id"]: package for package in metadata["packages"]}
    components = [component(package, checksums) for package in packages.values()]
    dependencies = [
        {"ref": reference(packages[node["id"]]), "dependsOn": sorted(reference(packages[needed]) for needed in node["dependencies"])}
        for node in metadata["resolve"]["nodes"]
    ]
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": f"afterwrite@{version}", "name": "afterwrite", "version": version}},
        "components": sorted(components, key=lambda component: component["bom-ref"]),
        "dependencies": sorted(dependencies, key=lambda dependency: dependency["ref"]),
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bill, sort_keys=True))
    return json.dumps({**bill, "serialNumber": f"urn:uuid:{serial}"}, indent=1, sort_keys=True).encode()


def component(package, checksums):
    name, version = package["name"], package["version"]
    entry = {"type": "library", "bom-ref": reference(package), "name": name, "version": version}
    if package["source"]:
        entry["purl"] = f"pkg:cargo/{name}@{version}"
    if package["license"]:
        # Old manifests separate alternatives by a slash.
        entry["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
    if (name, version) in checksums:
        entry["hashes"] = [{"alg": "SHA-256", "content": checksums[name, version]}]
    return entry


def reference(package):
    return f"{package['name']}@{package['version']}"


def locked_checksums(lock):
    """The checksums of the lock file, by name and version."""
    found = {}
    for entry in lock.split("[[package]]")[1:]:
        values = dict(re.findall(r'^(name|version|checksum) = "(.+)"$', entry, re.MULTILINE))
        if "checksum" in values:
            found[values["name"], values["version"]] = values["checksum"]
    return found
