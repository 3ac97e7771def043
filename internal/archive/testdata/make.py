"""Makes the archives of this directory, each with the format's own software, and expected.json: what that software
reads from them. With the same versions, a run changes nothing but times inside of the archives.

    python3 -m venv /tmp/archives && cd /tmp/archives
    bin/pip install pyarrow datasets webdataset pillow tfrecord zstd brotli python-snappy opencv-python-headless tqdm
    bin/pip install --no-deps mosaicml-streaming nvidia-dali-cuda120
    bin/pip download --no-deps --no-binary :all: ffcv && tar xf ffcv-*.tar.gz
    apt-get install tar zip
    bin/python .../internal/archive/testdata/make.py ffcv-1.0.2

mosaicml-streaming and ffcv import much that writing a file does not need, like torch; here it is replaced by nothing.

2026-11: Debian 12 (GNU tar 1.34, Info-ZIP 3.0), pyarrow 26.0.1, datasets 5.2.0, webdataset 1.0.2, Pillow 13.0.0,
tfrecord 1.14.6, mosaicml-streaming 0.13.0, ffcv 1.0.2, DALI 2.4.0 (wds2idx).
"""

import gzip
import importlib.util
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import types
import zipfile
import zlib
from pathlib import Path

import datasets
import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import tfrecord
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


def indexes():
    """Where DALI's wds2idx finds the files of a WebDataset."""
    tar = here / "wds-two.tar"
    subprocess.run([Path(sys.executable).parent / "wds2idx", tar, tar.with_suffix(".idx")], check=True, stdout=subprocess.DEVNULL)


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
    # Other encodings: lengths and numbers as differences.
    labels = [dice.choice([0, 1, 5, 1 << 30]) for _ in range(300)]
    for bits in (32, 64):
        for version in ("1.0", "2.0"):
            table = pa.table({
                "image": pa.array([None if i % 50 == 3 else bytes([65 + i % 7] * (i % 90)) for i in range(300)], pa.binary()),
                "label": pa.array([None if i % 7 == 0 else l for i, l in enumerate(labels)], pa.int32() if bits == 32 else pa.int64()),
            })
            name = f"delta{bits}-v{version[0]}.parquet"
            pq.write_table(table, here / name, compression="none" if bits == 32 else "snappy", use_dictionary=False, data_page_version=version, row_group_size=200,
                           column_encoding={"image": "DELTA_LENGTH_BYTE_ARRAY", "label": "DELTA_BINARY_PACKED"})
            rows = table.to_pylist()
            expect(name, "parquet", [(f"{i:09d}", -1 if r["label"] is None else r["label"], "", r["image"] or b"") for i, r in enumerate(rows)], True)
    # Bytes without a struct; equal images, which a dictionary holds once.
    same = picture()
    table = pa.table({"data": pa.array([same if i % 2 else picture() for i in range(12)], pa.binary()), "cls": pa.array(range(12), pa.uint8())})
    pq.write_table(table, here / "bytes.parquet", compression="none")
    expect_read("bytes.parquet", "cls", "data")
    # What has to be refused.
    pq.write_table(pa.table({"image": pa.array([[same], [same, same]], pa.list_(pa.binary()))}), here / "list.parquet")
    pq.write_table(pa.table({"image": pa.array([same]), "label": pa.array([0.5])}), here / "fraction.parquet")
    pq.write_table(pa.table({"path": pa.array(["a.jpg"])}), here / "paths.parquet")
    pq.write_table(pa.table({"image": pa.array([same] * 9)}), here / "prefix.parquet", use_dictionary=False, column_encoding={"image": "DELTA_BYTE_ARRAY"})


class Nothing(types.ModuleType):
    """A module whose names are all classes that do nothing."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *args, **kwargs: None, "__class_getitem__": lambda cls, item: cls})


def without(*names):
    for name in names:
        sys.modules[name] = Nothing(name)
    sys.modules["torch"].distributed = Nothing("torch.distributed")


def bare(root, *names):
    """Packages whose modules can be imported without what their __init__ imports."""
    for name in names:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(Path(root, *name.split(".")))]


def shards():
    without("torch", "torch.distributed", "torch.utils", "torch.utils.data")
    bare(Path(numpy.__file__).parent.parent, "streaming", "streaming.base", "streaming.base.format", "streaming.base.format.base", "streaming.base.format.mds")
    from streaming.base.format.mds.reader import MDSReader
    from streaming.base.format.mds.writer import MDSWriter

    def write(name, columns, rows, image, label, compression=None):
        with tempfile.TemporaryDirectory() as d:
            with MDSWriter(out=d + "/out", columns=columns, compression=compression) as out:
                for row in rows:
                    out.write(row)
            obj = json.loads(Path(d, "out", "index.json").read_text())["shards"][0]
            stored = obj["zip_data"] or obj["raw_data"]
            shutil.copyfile(Path(d, "out", stored["basename"]), here / name)
            if compression:
                import zstd
                raw = zstd.decompress((here / name).read_bytes())
                Path(d, "out", obj["raw_data"]["basename"]).write_bytes(raw)
            reader = MDSReader.from_json(d, "out", obj)
            read = []
            for i in range(len(rows)):
                value, data = reader[i], image(reader, i)
                l = value[label] if label else -1
                read.append((f"{i:09d}", l if isinstance(l, int) else -1, l if isinstance(l, str) else "", data))
            expect(name, "mds", read, True)

    def column(name):
        """The bytes of a column, as they are stored."""
        def of(reader, i):
            data, at = reader.get_sample_data(i), 0
            sizes = []
            for size in reader.column_sizes:
                if size:
                    sizes.append(size)
                else:
                    sizes.append(int.from_bytes(data[at:at + 4], "little"))
                    at += 4
            k = reader.column_names.index(name)
            return data[at + sum(sizes[:k]):at + sum(sizes[:k + 1])]
        return of

    def ppm(reader, i):
        out = io.BytesIO()
        reader[i]["image"].save(out, "PPM")
        return out.getvalue()

    images = [Image.frombytes("RGB", (8 + i, 6), dice.randbytes((8 + i) * 6 * 3)) for i in range(5)]
    rows = [{"image": image, "label": i * 100, "caption": "x" * i, "weight": 0.5} for i, image in enumerate(images)]
    columns = {"image": "jpeg", "label": "int", "caption": "str", "weight": "float64"}
    write("jpeg.mds", columns, rows, column("image"), "label")
    write("jpeg.mds.zstd", columns, rows, column("image"), "label", "zstd:7")
    write("pil.mds", {"image": "pil", "label": "str"}, [{"image": image, "label": "ab"[i % 2]} for i, image in enumerate(images)], ppm, "label")
    write("bytes.mds", {"x": "bytes", "y": "uint8"}, [{"x": picture("png"), "y": numpy.uint8(250 + i)} for i in range(5)], column("x"), None)
    for i, s in enumerate(expected["bytes.mds"]["samples"]):
        s["label"] = 250 + i


def records():
    def write(name, rows, image, label, names=None):
        out = tfrecord.TFRecordWriter(str(here / name))
        for row in rows:
            out.write(row)
        out.close()
        kinds = {k: t for k, (_, t) in rows[0].items()}
        read = list(tfrecord.reader.tfrecord_loader(str(here / name), None, kinds))
        label_of = lambda r: bytes(r[label]).decode() if kinds[label] == "byte" else int(r[label][0])
        samples = []
        for i, r in enumerate(read):
            l = label_of(r)
            samples.append((bytes(r[names]).decode() if names else f"{i:09d}", -1 if isinstance(l, str) else l, l if isinstance(l, str) else "", bytes(r[image])))
        expect(name, "tfrecord", samples, True)

    write("imagenet.tfrecord-00000-of-00001", [
        {"image/encoded": (picture(), "byte"), "image/class/label": (i + 1, "int"), "image/class/text": (b"dog", "byte"),
         "image/filename": (b"n0_%d.JPEG" % i, "byte"), "image/object/bbox/xmin": ([0.5, 0.25], "float"), "image/height": (6, "int")} for i in range(6)
    ], "image/encoded", "image/class/label", "image/filename")
    write("named.tfrecord", [{"image": (picture("png"), "byte"), "label": ((b"cat", b"large dog")[i % 2], "byte")} for i in range(4)], "image", "label")


def betons():
    root = sys.argv[1]
    without("numba", "numba.typed", "numba.extending", "numba.core", "numba.core.errors", "torch", "tqdm.contrib.concurrent")
    bare(root, "ffcv", "ffcv.pipeline")
    sys.modules["numba.extending"].intrinsic, sys.modules["numba.typed"].Dict = lambda f: f, dict
    for name in ("ffcv.pipeline.operation", "ffcv.pipeline.state", "ffcv.pipeline.stage", "ffcv.pipeline.compiler", "ffcv.pipeline.allocation_query", "ffcv.libffcv"):
        sys.modules[name] = Nothing(name)
    from ffcv.fields import FloatField, IntField, JSONField, RGBImageField
    from ffcv.reader import Reader
    from ffcv.writer import DatasetWriter

    def write(name, fields, rows, image, label):
        with tempfile.TemporaryDirectory() as d:
            path = d + "/a.beton"
            DatasetWriter(path, fields, page_size=1 << 21, num_workers=1).from_indexed_dataset(rows)
            r, data = Reader(path), Path(path).read_bytes()
            sizes = {int(ptr): int(size) for _, ptr, size in r.alloc_table}
            read = []
            for i, row in enumerate(r.metadata):
                m = row[image]
                b = data[m["data_ptr"]:][:sizes[int(m["data_ptr"])]]
                if m["mode"] == 1:
                    assert b == rows[i][image].tobytes()
                    b = b"P6\n%d %d\n255\n" % (m["width"], m["height"]) + b
                read.append((f"{i:09d}", int(row[label]), "", b))
            with gzip.GzipFile(here / (name + ".gz"), "wb", mtime=0) as out:
                out.write(data)
            expect(name, "beton", read, True)

    pictures = [numpy.frombuffer(dice.randbytes((8 + i) * 6 * 3), numpy.uint8).reshape(6, 8 + i, 3) for i in range(6)]
    write("raw.beton", {"image": RGBImageField("raw"), "label": IntField()}, [(p, i * 3) for i, p in enumerate(pictures)], 0, 1)
    write("mixed.beton", {"note": JSONField(), "w": FloatField(), "photo": RGBImageField("smart", smart_threshold=180), "index": IntField(), "label": IntField()},
          [({"a": i}, 0.5, p, 7, i) for i, p in enumerate(pictures)], 2, 4)
    write("last.beton", {"label": IntField(), "image": RGBImageField("jpg")}, [(i, p) for i, p in enumerate(pictures)], 1, 0)


for make in (webdatasets, indexes, tars, zips, parquets, shards, records, betons):
    make()
(here / "expected.json").write_text(json.dumps(expected, separators=(",", ":")).replace("]},", "]},\n") + "\n")
