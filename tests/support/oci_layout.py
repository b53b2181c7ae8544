"""OCI image layouts, as skopeo and buildah write them, from images of container_image.py."""

import dataclasses
import gzip
import hashlib
import json
import pathlib

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
NAME = "org.opencontainers.image.ref.name"


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def as_json(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def zstd(content):
    """A frame of blocks that are stored as they are: no compressor is needed for one."""
    frame = b"\x28\xb5\x2f\xfd" + bytes([0xE0]) + len(content).to_bytes(8, "little")
    pieces = [content[at : at + (128 << 10)] for at in range(0, len(content), 128 << 10)] or [b""]
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        frame += (len(piece) << 3 | last).to_bytes(3, "little") + piece
    return frame


# How layers may be packed: what it adds to their media type, and how.
PACKINGS = {
    "tar": ("", lambda content: content),
    "gzip": ("+gzip", lambda content: gzip.compress(content, mtime=0)),
    "zstd": ("+zstd", zstd),
}


@dataclasses.dataclass(frozen=True)
class Added:
    digest: str  # of the manifest, or of the index
    layers: list  # their digests


class Layout:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / "blobs/sha256").mkdir(parents=True)
        (self.folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        self.listed = []
        self._list()

    def path(self, blob_digest):
        return self.folder / "blobs" / blob_digest.replace(":", "/")

    def add(self, image, name=None, packing="tar"):
        """One platform's image, which index.json lists under the name."""
        added, descriptor = self._manifest(image, packing)
        self._list(descriptor, name)
        return added

    def add_index(self, images, name=None):
        """An index over {architecture: image}."""
        manifests = [
            {**self._manifest(image, "tar")[1], "platform": {"os": "linux", "architecture": architecture}}
            for architecture, image in images.items()
        ]
        index = as_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests})
        self._list(self._blob(INDEX, index), name)
        return Added(digest(index), [])

    def forget(self, name):
        """index.json no longer lists it; its blobs stay."""
        self.listed = [entry for entry in self.listed if entry.get("annotations", {}).get(NAME) != name]
        self._list()

    def _manifest(self, image, packing):
        suffix, pack = PACKINGS[packing]
        layers = [self._blob(LAYER + suffix, pack(layer)) for layer in image.layers]
        manifest = as_json(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": self._blob(CONFIG, image.config),
                "layers": layers,
            }
        )
        return Added(digest(manifest), [layer["digest"] for layer in layers]), self._blob(MANIFEST, manifest)

    def _blob(self, media_type, content):
        self.path(digest(content)).write_bytes(content)
        return {"mediaType": media_type, "size": len(content), "digest": digest(content)}

    def _list(self, descriptor=None, name=None):
        if descriptor:
            self.listed.append({**descriptor, "annotations": {NAME: name}} if name else descriptor)
        (self.folder / "index.json").write_bytes(as_json({"schemaVersion": 2, "manifests": self.listed}))
