"""Archives of folders, as ordinary programs make them and as attackers do."""

import io
import tarfile
import zipfile
from collections.abc import Mapping


def tar_of(files: Mapping[str, bytes], *, packed: bool = True, executable: tuple[str, ...] = ()) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz" if packed else "w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.mode = 0o755 if name in executable else 0o644
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def tar_with(info: tarfile.TarInfo, files: Mapping[str, bytes]) -> bytes:
    """With a member of a special kind after the files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, data in files.items():
            plain = tarfile.TarInfo(name)
            plain.size = len(data)
            archive.addfile(plain, io.BytesIO(data))
        archive.addfile(info)
    return made.getvalue()


def zip_of(files: Mapping[str, bytes], *, method: int = zipfile.ZIP_DEFLATED, mode: int = 0o100644) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            info.create_system = 3
            info.external_attr = mode << 16
            archive.writestr(info, data)
    return made.getvalue()
