#!/bin/sh
# Makes real photos for make bench: photos.sh DIR
#
# They are the sample images of scikit-image and scikit-learn, cut to parts and resized to 500x375,
# as JPEGs of quality 90 and 97 in DIR/90 and DIR/97, and progressive ones of quality 90 in
# DIR/progressive. If the packages cannot be installed, the script says so, and make bench skips
# those rows.
set -eu
cd "$(dirname "$0")/.."

dir=$1
[ ! -d "$dir/progressive" ] || exit 0
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT INT TERM
echo 'installing scikit-image and scikit-learn for their photos, for the moment'
if ! python3 -m venv "$tools" >/dev/null 2>&1 ||
	! "$tools/bin/python3" -m pip install -q --retries 1 --no-deps scikit-image scikit-learn pillow >/dev/null 2>&1; then
	echo 'photos: they could not be installed; rows with real photos are skipped'
	exit 0
fi
"$tools/bin/python3" - "$tools" "$dir" <<'END'
import glob, os, sys
from PIL import Image

tools, out = sys.argv[1:]
paths = [p for kind in ("skimage", "sklearn") for ext in ("jpg", "png")
         for p in glob.glob(f"{tools}/lib/python3*/site-packages/{kind}/**/*.{ext}", recursive=True)]
photos = []
for path in sorted(paths):
    image = Image.open(path)
    if image.mode == "RGB" and min(image.size) >= 300:  # no drawings, masks and microscopy in gray
        photos.append((os.path.splitext(os.path.basename(path))[0], image))
for folder, how in (("90", {"quality": 90}), ("97", {"quality": 97}), ("progressive", {"quality": 90, "progressive": True})):
    os.makedirs(f"{out}/{folder}", exist_ok=True)
    for name, image in photos:
        w, h = image.size
        for i, (x, y) in enumerate(((0, 0), (.4, 0), (0, .4), (.4, .4), (.2, .2))):
            part = image.crop((int(x * w), int(y * h), int((x + .6) * w), int((y + .6) * h)))
            part.resize((500, 375), Image.LANCZOS).save(f"{out}/{folder}/{name}-{i}.jpg", **how)
END
