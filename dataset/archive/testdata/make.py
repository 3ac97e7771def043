"""Makes the archives of this directory, each with the format's own software, and expected.json: what that software
reads from them. With the same versions, a run changes nothing but times inside of the archives.

    python3 -m venv /tmp/archives && /tmp/archives/bin/pip install pyarrow datasets webdataset pillow
    apt-get install tar zip
    /tmp/archives/bin/python dataset/archive/testdata/make.py

2026-11: Debian 12 (GNU tar 1.34, Info-ZIP 3.0), pyarrow 26.0.1, datasets 5.2.0, webdataset 1.0.2, Pillow 13.0.0.
"""

import io
import json
import os
import random
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import webdataset
from PIL import Image

here = Path(__file__).parent
dice = random.Random(7)
expected = {}


def picture(name="jpg", size=None):
    """A small image, or something that is none but takes as many bytes as wanted: nothing here is decoded."""
    if size is not None:
        return bytes(dice.choices(b"abcdefgh", k=size))
    image = Image.frombytes("RGB", (8, 6), dice.randbytes(8 * 6 * 3))
    out = io.BytesIO()
    image.save(out, {"jpg": "JPEG", "jpeg": "JPEG"}.get(name, name.upper()))
    return out.getvalue()


def expect(name, kind, samples, ordered, classes=None):
    """samples are (name, label, class, bytes)."""
    expected[name] = {
        "kind": kind, "ordered": ordered, "classes": classes,
        "samples": [{"name": n, "label": l, "class": c, "size": len(b), "crc": zlib.crc32(b)} for n, l, c, b in samples],
    }


def webdatasets():
    def write(name, samples):
        with webdataset.TarWriter(str(here / name), mtime=0) as sink:
            for sample in samples:
                sink.write(sample)

    def expect_read(name, image, label, cls=lambda s: ""):
        read = list(webdataset.WebDataset(str(here / name), shardshuffle=False))
        expect(name, "webdataset", [(f"{s['__key__']}.{image(s)}", label(s), cls(s), s[image(s)]) for s in read], True)

    write("wds-cls.tar", [{"__key__": f"{i:06d}", "jpg": picture(size=dice.randrange(1, 1500)), "cls": i % 3} for i in range(9)])
    expect_read("wds-cls.tar", lambda s: "jpg", lambda s: int(s["cls"]))
    write("wds-json.tar", [{"__key__": f"part/{i}", "png": picture("png"), "json": {"label": 5 - i, "caption": "a, b"}, "txt": "x"} for i in range(5)])
    expect_read("wds-json.tar", lambda s: "png", lambda s: json.loads(s["json"])["label"])
    write("wds-names.tar", [{"__key__": f"k{i}", "webp": picture("webp"), "json": {"class": "cat" if i % 2 else "large dog"}} for i in range(4)])
    expect_read("wds-names.tar", lambda s: "webp", lambda s: -1, lambda s: json.loads(s["json"])["class"])
    write("wds-two.tar", [{"__key__": f"s{i}", "seg.png": picture("png"), "jpg": picture(), "png": picture("png"), "cls": i} for i in range(3)])
    expect_read("wds-two.tar", lambda s: "jpg", lambda s: int(s["cls"]))
    write("wds-plain.tar", [{"__key__": f"{9 - i}", "jpeg": picture(), "txt": "caption"} for i in range(4)])
    expect_read("wds-plain.tar", lambda s: "jpeg", lambda s: -1)


def tree(root):
    """Class directories, with names of all lengths and files that are no samples."""
    files = {}
    for cls in ("n01440764", "a class with spaces", "x" * 120):
        for i in range(3):
            files[f"{cls}/{i}{'y' * (100 if i == 2 else 0)}.JPEG"] = picture(size=dice.randrange(0, 2000))
    files["n01440764/deep/er/é.png"] = picture("png")
    files["n01440764/a.1.jpg"], files["n01440764/a.2.jpg"] = picture(), picture()
    others = {"README.txt": b"read me", "n01440764/.hidden.jpg": b"h", ".git/x.jpg": b"h", "n01440764/notes": b"n"}
    for name, data in (files | others).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return files


def tars():
    def expect_read(name):
        with tarfile.open(here / name) as t:
            read = [(os.path.normpath(m.name), -1, "", t.extractfile(m).read()) for m in t if m.isfile()]
        wanted = [s for s in read if s[0].lower().endswith((".jpeg", ".jpg", ".png")) and "/." not in "/" + s[0]]
        assert {n: b for n, _, _, b in wanted} == files
        expect(name, "tar", wanted, False)

    with tempfile.TemporaryDirectory() as d:
        root = Path(d) / "tree"
        files = tree(root)
        for form in ("gnu", "posix", "v7"):
            what = ["--exclude", "x*", "."] if form == "v7" else ["."]
            if form == "v7":
                files = {k: v for k, v in files.items() if not k.startswith("x") and "yyy" not in k}
                what = ["--exclude", "*yyy*"] + what
            subprocess.run(["tar", "-C", root, "--sort=name", "--owner=0", "--group=0", "--mtime=@0", f"--format={form}", "--pax-option=delete=atime,delete=ctime",
                            "-cf", here / f"tree-{form}.tar", *what], check=True) if form == "posix" else \
                subprocess.run(["tar", "-C", root, "--sort=name", "--owner=0", "--group=0", "--mtime=@0", f"--format={form}",
                                "-cf", here / f"tree-{form}.tar", *what], check=True)
            expect_read(f"tree-{form}.tar")

        # As ImageNet's: a tar of tars. Inner ones are in different formats.
        outer, read = io.BytesIO(), []
        with tarfile.open(fileobj=outer, mode="w", format=tarfile.USTAR_FORMAT) as t:
            for k, cls in enumerate(("n01440764", "n01443537")):
                inner = io.BytesIO()
                with tarfile.open(fileobj=inner, mode="w", format=(tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)[k]) as u:
                    for i in range(3):
                        data, info = picture(), tarfile.TarInfo(f"{cls}_{i}.JPEG")
                        info.size = len(data)
                        u.addfile(info, io.BytesIO(data))
                        read.append((f"{cls}/{info.name}", -1, "", data))
                info = tarfile.TarInfo(f"{cls}.tar")
                info.size = len(inner.getvalue())
                t.addfile(info, io.BytesIO(inner.getvalue()))
        (here / "nested.tar").write_bytes(outer.getvalue())
        expect("nested.tar", "tar", read, False)

        # GNU tar writes sparse files in two ways, and links.
        odd = Path(d) / "odd"
        odd.mkdir()
        with open(odd / "sparse.jpg", "wb") as f:
            f.truncate(1 << 20)
        (odd / "whole.jpg").write_bytes(picture())
        os.link(odd / "whole.jpg", odd / "zlink.jpg")
        os.symlink("whole.jpg", odd / "symlink.jpg")
        for form in ("gnu", "posix"):
            subprocess.run(["tar", "-C", odd, "--sort=name", "--sparse", "--owner=0", "--group=0", "--mtime=@0", f"--format={form}", "-cf", here / f"odd-{form}.tar", "."], check=True)


def zips():
    def expect_read(name):
        with zipfile.ZipFile(here / name) as z:
            # Info-ZIP writes and reads names as the bytes they are, which Python takes for those of MS-DOS.
            read = [(i.filename.encode("utf-8" if i.flag_bits & 0x800 else "cp437").decode(), -1, "", z.read(i)) for i in z.infolist() if not i.is_dir()]
        expect(name, "zip", [s for s in read if s[0].lower().endswith((".jpeg", ".jpg", ".png")) and "/." not in "/" + s[0] and "__MACOSX" not in s[0]], False)

    with tempfile.TemporaryDirectory() as d:
        root = Path(d)
        tree(root)
        (root / "__MACOSX").mkdir()
        (root / "__MACOSX" / "x.jpg").write_bytes(b"x")
        for name, flags in {"stored.zip": ["-0"], "deflated.zip": ["-9"], "zip64.zip": ["-fz", "-5"], "streamed.zip": ["-fd", "-5"]}.items():
            (here / name).unlink(missing_ok=True)
            subprocess.run(["zip", "-q", "-r", "-X", *flags, here / name, "."], cwd=root, check=True)
            expect_read(name)
    (here / "encrypted.zip").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as d:
        (Path(d) / "a.jpg").write_bytes(picture())
        subprocess.run(["zip", "-q", "-X", "-P", "secret", here / "encrypted.zip", "a.jpg"], cwd=d, check=True)
    with zipfile.ZipFile(here / "methods.zip", "w") as z:
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            z.writestr(zipfile.ZipInfo(f"{method}.jpg"), b"0" * 1000, method)


def parquets():
    def expect_read(name, label=None, image="image", classes=None, names=None):
        rows = pq.read_table(here / name).to_pylist()
        read = []
        for i, row in enumerate(rows):
            data, value = row[image], row[label] if label else None
            path = data.get("path") if isinstance(data, dict) else None
            data = data["bytes"] if isinstance(data, dict) else data
            read.append((path if names else f"{i:09d}", value if isinstance(value, int) else -1, value if isinstance(value, str) else "", data or b""))
        expect(name, "parquet", read, True, classes)

    # As datasets writes them today, with pages that are not compressed.
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog", "owl"])})
    rows = {"image": [{"bytes": picture(), "path": f"{i}.jpg"} for i in range(20)], "label": [i % 3 - (i == 4) * 2 for i in range(20)]}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(str(here / "hf.parquet"), batch_size=8)
    expect_read("hf.parquet", "label", classes=["cat", "dog", "owl"], names=True)

    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({
        "id": pa.array(range(30)),
        "image": pa.array([{"bytes": picture(size=dice.randrange(0, 400)), "path": f"dir/{i}.png"} for i in range(30)], image),
        "label": pa.array([i % 7 for i in range(30)], pa.int32()),
    })
    for codec in ("none", "snappy", "gzip", "zstd", "lz4", "brotli"):
        for version in ("1.0", "2.0"):
            for dictionary in (False, True):
                name = f"{codec}-v{version[0]}{'-dict' * dictionary}.parquet"
                pq.write_table(table, here / name, compression=codec, data_page_version=version, use_dictionary=dictionary,
                               row_group_size=13, data_page_size=700, write_batch_size=2)
                expect_read(name, "label", names=True)
    # The dictionary grows too large in the middle of a row group; images and labels that are null; labels that are names.
    table = pa.table({
        "img": pa.array([{"bytes": None if i % 5 == 1 else picture(size=100 + i), "path": None} if i % 5 != 2 else None for i in range(40)], image),
        "label": pa.array([None if i % 4 == 3 else "ab"[i % 2] for i in range(40)], pa.string()),
    })
    pq.write_table(table, here / "nulls.parquet", compression="snappy", dictionary_pagesize_limit=1000, write_batch_size=3, data_page_size=500)
    expected_rows = table.to_pylist()
    expect("nulls.parquet", "parquet", [(f"{i:09d}", -1, r["label"] or "", (r["img"] or {}).get("bytes") or b"") for i, r in enumerate(expected_rows)], True)
    # Bytes without a struct; equal images, which a dictionary holds once.
    same = picture()
    table = pa.table({"data": pa.array([same if i % 2 else picture() for i in range(12)], pa.binary()), "cls": pa.array(range(12), pa.uint8())})
    pq.write_table(table, here / "bytes.parquet", compression="none")
    expect_read("bytes.parquet", "cls", "data")
    # What has to be refused.
    pq.write_table(pa.table({"image": pa.array([[same], [same, same]], pa.list_(pa.binary()))}), here / "list.parquet")
    pq.write_table(pa.table({"image": pa.array([same]), "label": pa.array([0.5])}), here / "fraction.parquet")
    pq.write_table(pa.table({"path": pa.array(["a.jpg"])}), here / "paths.parquet")
    pq.write_table(pa.table({"image": pa.array([same] * 9), "label": pa.array(range(9))}), here / "delta.parquet", use_dictionary=False, column_encoding={"label": "DELTA_BINARY_PACKED"})


for make in (webdatasets, tars, zips, parquets):
    make()
(here / "expected.json").write_text(json.dumps(expected, separators=(",", ":")).replace("]},", "]},\n") + "\n")
