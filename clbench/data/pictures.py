"""One image file to one array."""

import io
import warnings
from pathlib import Path

import numpy as np

from clbench.data.reader import check_shape
from clbench.errors import UserError
from clbench.files import brief

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp")
FORMATS = ("PNG", "JPEG", "BMP")
"""What Pillow may read: it would start Ghostscript for an EPS file, whatever its name is."""
LARGEST = 16 * 2**20
"""Most bytes of an image file, and most pixels of an image that is resized."""
SCANS = 100
"""Most times that a JPEG may draw its image anew; a progressive one does it ten times."""


def is_picture(name: str) -> bool:
    """Whether this is the name of an image that is not hidden."""
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def decode(
    where: Path | str, content: bytes, shape: tuple[int, int, int], remarks: set[str] | None = None
) -> np.ndarray:
    """uint8 (C, H, W) of exactly `shape`. Another size is an error, or is resized with a note in
    `remarks` if they are given."""
    from PIL import Image

    channels, height, width = shape
    try:
        with (
            warnings.catch_warnings(action="ignore"),
            Image.open(io.BytesIO(content), formats=FORMATS) as image,
        ):
            if image.width * image.height > LARGEST:
                raise UserError(f"{where} has more than {LARGEST:,} pixels: refused.")
            if image.format in ("JPEG", "MPO") and content.count(b"\xff\xda") > SCANS:
                raise UserError(f"{where} has more than {SCANS} scans: refused.")
            if remarks is None:
                check_shape(where, (channels, image.height, image.width), shape)
            picture = image.convert("L" if channels == 1 else "RGB")
    except UserError:
        raise
    except Exception as error:  # each format fails in its own way
        raise UserError(
            f"{where} does not decode as an image (PNG, JPEG or BMP): {brief(error)}."
        ) from None
    if picture.size != (width, height) and remarks is not None:
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
        remarks.add(f"resized to {height}x{width}")
    pixels = np.asarray(picture, dtype=np.uint8).reshape(height, width, channels)
    return pixels.transpose(2, 0, 1)
