#!/usr/bin/env python3
"""Makes the corpus of decode's tests again: make.py, in a directory of its own, and nothing else.

No file here was written by batchfs's own code, nor were the pixels that it must decode to:

  samples/         images, and next to nothing that is in none of them
  reference.tar.gz for samples/NAME.EXT the pixels, as NAME.EXT.ppm; as NAME.EXT.pgm the luma
                   of a JPEG, where gray is not made from red, green and blue
  regions/         JPEGs with edges everywhere; decoded in parts, they are compared with themselves
  progressive/     JPEGs of all kinds of scans, with many coefficients in a block, or none in many
  refused/         JPEGs that no decoder here reads
  *.*              single files of single tests
  ../../internal/gen/rare/   what `batchfs gen --kind mixed` shows but cannot write

Needs, as on Debian 12: imagemagick, libjpeg-turbo-progs, libturbojpeg0, netpbm, optipng, webp, and from PyPI
pillow, pypng and imagecodecs. Other versions may compress differently; the pixels must not change by more
than the tests allow.
"""
import ctypes, gzip, io, os, shutil, struct, subprocess, tarfile, tempfile
import png
from PIL import Image, ImageOps

os.chdir(os.path.dirname(os.path.abspath(__file__)))
RARE = "../../internal/gen/rare"
for d in ("samples", "regions", "progressive", "refused", RARE):
    shutil.rmtree(d, ignore_errors=True)
    os.mkdir(d)
CONVERT = "/usr/bin/convert"  # ImageMagick's
references = {}


def run(*args, stdin=None):
    return subprocess.run(args, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True).stdout


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def ppm(w, h, at):
    return b"P6\n%d %d\n255\n" % (w, h) + bytes(v & 255 for y in range(h) for x in range(w) for v in at(x, y))


def sample(name, data, pixels, gray=None):
    """Enters a sample, the PPM that it decodes to, and the PGM where gray has its own rule."""
    write("samples/" + name, data)
    references[name + ".ppm"] = pixels
    if gray:
        references[name + ".pgm"] = gray


# The pictures. Soft ones lose little by subsampled chroma; busy ones show every pixel that is used.
def soft(x, y): return 60 + 2 * x, 200 - 2 * y - x, 50 + x + y
def scene(x, y): return 30 + 5 * x % 200, 220 - 3 * y - x, 60 + 2 * x + 2 * y
def busy(x, y): return tuple(((x + 7 * c) * 89 + y * 57 + (x + 7 * c) * y * 31) & 255 for c in range(3))


def cjpeg(pixels, *args, quality=100):
    return run("cjpeg", "-quality", str(quality), *args, stdin=pixels)


def djpeg(data):
    return run("djpeg", "-pnm", "-rgb", stdin=data), run("djpeg", "-pnm", "-grayscale", stdin=data)


def script(text):
    """A file of scans for cjpeg."""
    scans = tempfile.NamedTemporaryFile("w", suffix=".scans")
    scans.write(text)
    scans.flush()
    return scans


PLAIN = [(1, 1), (37, 21), (16, 35), (3, 50), (20, 10), (10, 20), (21, 10), (61, 47)]


def jpegs():
    def add(name, size, *args, at=soft):
        data = cjpeg(ppm(*size, at), *args)
        sample(name + ".jpg", data, *djpeg(data))

    for factors in ("1x1", "2x1", "1x2", "2x2", "4x1", "4x2"):
        for w, h in [(1, 1), (2, 3), (7, 9), (8, 8), (16, 16), (17, 33), (50, 39)]:
            add(f"ycc-{factors}-{w}x{h}", (w, h), "-sample", factors)
    for w, h in PLAIN:
        add(f"plain-{w}x{h}", (w, h), "-sample", "2x2")
    size = 37, 29
    for factors in ("3x1", "1x4", "2x4"):
        add("ycc-" + factors, size, "-sample", factors)
    add("baseline", size)
    add("progressive", size, "-progressive")
    add("restarts", size, "-restart", "2B")
    add("optimized", size, "-optimize", "-quality", "30")
    with script("0; 1; 2;") as scans:
        add("separate-scans", size, "-scans", scans.name)
    add("gray", size, "-grayscale")
    add("gray-2x2", size, "-grayscale", "-sample", "2x2")
    data = cjpeg(ppm(*size, scene), "-rgb")
    sample("rgb.jpg", data, djpeg(data)[0])
    inks(size)
    for name, how in (("huffman", ()), ("progressive", ("-progressive",)), ("arithmetic", ("-arithmetic",)),
                      ("arithmetic-progressive", ("-arithmetic", "-progressive"))):
        rough = lambda x, y: [v // 4 + s // 2 for v, s in zip(busy(x // 3, y // 3), soft(x, y))]
        write(name + ".jpg", run("jpegtran", *how, stdin=cjpeg(ppm(61, 47, rough), quality=75)))
    for factors in ("1x1", "2x1", "1x2", "2x2", "4x1", "4x2", "1x4", "2x4", "3x1"):
        for name, how in (("", ()), ("-progressive", ("-progressive",)), ("-restarts", ("-restart", "3B"))):
            write(f"regions/{factors}{name}.jpg", cjpeg(ppm(83, 75, busy), "-sample", factors, *how, quality=25))
    write("regions/gray.jpg", cjpeg(ppm(83, 75, busy), "-grayscale", "-sample", "2x2", quality=25))


def progressive():
    """Names say the scans; flat ones have runs of blocks without coefficients, and dense ones hardly any zeros."""
    colour = {
        "plain": "0 1 2: 0-0, 0, 0; 0: 1-63, 0, 0; 2: 1-63, 0, 0; 1: 1-63, 0, 0;",
        "bands": "0 1 2: 0-0, 0, 0; 0: 1-1, 0, 0; 0: 2-5, 0, 0; 1: 1-8, 0, 0; 0: 6-62, 0, 0; 0: 63-63, 0, 0; 1: 9-63, 0, 0; 2: 1-63, 0, 0;",
        "alone": "0: 0-0, 0, 1; 1 2: 0-0, 0, 2; 1: 0-0, 2, 1; 0: 0-0, 1, 0; 2: 0-0, 2, 1; 1 2: 0-0, 1, 0;"
                 "0: 1-63, 0, 0; 1: 1-63, 0, 0; 2: 1-63, 0, 0;",
        "deep": "0 1 2: 0-0, 0, 3; 0 1 2: 0-0, 3, 2; 0: 1-63, 0, 3; 0: 1-63, 3, 2; 0: 1-20, 2, 1; 0: 21-63, 2, 1; 0: 1-63, 1, 0;"
                "0 1 2: 0-0, 2, 1; 0 1 2: 0-0, 1, 0; 1: 1-63, 0, 1; 2: 1-63, 0, 2; 2: 1-63, 2, 1; 1: 1-63, 1, 0; 2: 1-63, 1, 0;",
        "usual": "",
    }
    gray = {"plain": "0: 0-0, 0, 0; 0: 1-63, 0, 0;", "deep": "0: 0-0, 0, 1; 0: 1-63, 0, 2; 0: 0-0, 1, 0; 0: 1-63, 2, 1; 0: 1-63, 1, 0;"}
    flat = lambda x, y: soft(x, y) if x < 9 and y < 20 else (90, 100, 110)
    noise = lambda x, y: tuple((x * x * 7919 + y * y * 104729 + x * y * (31 + c) + c * 77) % 251 for c in range(3))

    def add(name, size, at, quality, scans, *args):
        with script(scans) as file:
            how = ("-scans", file.name) if scans else ("-progressive",)
            write(f"progressive/{name}.jpg", cjpeg(ppm(*size, at), *how, *args, quality=quality))

    for name, scans in colour.items():
        for factors, size in (("1x1", (17, 9)), ("2x1", (33, 17)), ("1x2", (9, 33)), ("2x2", (35, 33)), ("4x1", (65, 11))):
            add(f"{name}-{factors}", size, busy, 40, scans, "-sample", factors)
        add(f"{name}-restarts", (35, 33), busy, 30, scans, "-sample", "2x2", "-restart", "3B")
        add(f"{name}-flat", (83, 75), flat, 90, scans, "-sample", "2x2")
        add(f"{name}-dense", (16, 24), noise, 100, scans, "-sample", "1x1")
        add(f"{name}-tiny", (8, 8), soft, 50, scans, "-sample", "1x1")
    for name, scans in gray.items():
        add(f"{name}-gray", (27, 19), busy, 50, scans, "-grayscale")
        add(f"{name}-gray-restarts", (27, 19), busy, 50, scans, "-grayscale", "-restart", "2B")
    add("usual-rgb", (19, 18), busy, 50, "", "-rgb")


def inks(size):
    """CMYK by Pillow and YCCK by TurboJPEG. Pillow decodes both to ink; light is what the inks leave of it."""
    w, h = size
    inks = bytes(v & 255 for y in range(h) for x in range(w) for v in (*(255 - c for c in scene(x, y)), 2 * x + y))
    image = Image.frombytes("CMYK", size, inks)

    def add(name, data):
        decoded = Image.open(io.BytesIO(data))
        under = lambda ink, key: ((255 - ink) * (255 - key) * 2 + 255) // 510
        inks = struct.iter_unpack("4B", decoded.tobytes() if data.count(b"Adobe") else bytes(255 - v for v in decoded.tobytes()))
        sample(name, data, b"P6\n%d %d\n255\n" % size + bytes(under(v, k) for c, m, y, k in inks for v in (c, m, y)))

    to = io.BytesIO()
    image.save(to, "JPEG", quality=100, subsampling=0)
    add("cmyk.jpg", to.getvalue())
    at = to.getvalue().index(b"\xff\xee")  # Adobe's segment; without it Pillow inverts the inks nevertheless
    add("cmyk-plain.jpg", to.getvalue()[:at] + to.getvalue()[at + 16:])
    to = io.BytesIO()
    image.save(to, "JPEG", quality=100, subsampling=0, progressive=True)
    add("cmyk-progressive.jpg", to.getvalue())
    turbo = ctypes.CDLL("libturbojpeg.so.0")
    turbo.tjInitCompress.restype = ctypes.c_void_p
    stored = bytes(255 - v for v in inks)  # inverted, as Adobe does
    for name, subsampling in (("ycck", 0), ("ycck-2x2", 2)):
        out, n = ctypes.c_void_p(), ctypes.c_ulong()
        handle = ctypes.c_void_p(turbo.tjInitCompress())
        TJPF_CMYK = 11
        if turbo.tjCompress2(handle, stored, w, 0, h, TJPF_CMYK, ctypes.byref(out), ctypes.byref(n), subsampling, 100, 0):
            raise SystemExit("TurboJPEG failed")
        add(name + ".jpg", ctypes.string_at(out, n.value))


def refused():
    import imagecodecs, numpy
    pixels = (numpy.arange(16 * 16, dtype="uint16") * 16).reshape(16, 16)
    write("refused/12-bits.jpg", imagecodecs.jpeg8_encode(pixels, bitspersample=12))
    write("refused/lossless.jpg", imagecodecs.jpeg8_encode(pixels.astype("uint8"), lossless=True))


def pngs():
    palette = [(i * 7 % 256, 255 - i, i * 3 % 256) for i in range(256)]
    names = {0: "gray", 2: "rgb", 3: "palette", 4: "gray-alpha", 6: "rgba"}
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}

    def add(name, kind, depth, w, h, interlace, filters=5):
        full = (1 << depth) - 1
        at = lambda x, y, c: (x * 2531 + y * 4127 + c * 19001 + x * y * 97 & 0xffff) >> (16 - depth)
        rows = [[at(x, y, c) for x in range(w) for c in range(channels[kind])] for y in range(h)]
        args = {"palette": [(*p, (0, 128, 255)[min(i, 2)]) for i, p in enumerate(palette[:full + 1])]} if kind == 3 else \
            {"greyscale": kind in (0, 4), "alpha": kind > 3}
        with tempfile.TemporaryDirectory() as d:
            path = d + "/x.png"
            with open(path, "wb") as f:
                png.Writer(w, h, bitdepth=depth, interlace=interlace, **args).write(f, rows)
            run("optipng", "-quiet", "-force", "-o1", "-nb", "-nc", "-np", "-nx", "-f", str(filters), path)
            data = read(path)
        # pypng reads what optipng wrote: samples of their own depth, which are then rounded to 8 bits.
        _, _, values, info = png.Reader(bytes=data).read()
        eight = lambda v: (v * 510 + full) // (2 * full)
        out = bytearray()
        for row in values:
            for x in range(w):
                v = list(row[x * info["planes"]:][:info["planes"]])
                out += bytes(palette[v[0]]) if kind == 3 else bytes(map(eight, v[:1] * 3 if kind in (0, 4) else v[:3]))
        sample(name + ".png", data, b"P6\n%d %d\n255\n" % (w, h) + out)

    for kind, depths in {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}.items():
        for depth in depths:
            for w, h in ((1, 1), (5, 3), (33, 19)):
                for interlace in (False, True):
                    add(f"{names[kind]}-{depth}-{w}x{h}" + "-interlaced" * interlace, kind, depth, w, h, interlace)
    for kind in (2, 6):
        for filters in (1, 2, 3, 4):
            add(f"{names[kind]}-filter-{filters}", kind, 8, 33, 19, False, filters)
    for w, h in PLAIN:
        add(f"plain-{w}x{h}", 2, 8, w, h, False)
        add(f"plain-interlaced-{w}x{h}", 2, 8, w, h, True)


def bmps():
    def pixels_of(data):
        image = Image.open(io.BytesIO(data)).convert("RGB")
        return b"P6\n%d %d\n255\n" % image.size + image.tobytes()

    def add(name, data, bits=()):
        """Pillow and ImageMagick must read the same. Of 5 or 6 bits both drop fractions, which are rounded here."""
        want, other = pixels_of(data), run(CONVERT, "bmp:-", "-depth", "8", "-alpha", "off", "ppm:-", stdin=data)
        if bits:
            w, h = struct.unpack_from("<ii", data, 18)
            out = bytearray()
            for y in reversed(range(h)):
                for (v,) in struct.iter_unpack("<H", data[data[10] + y * (w * 2 + 3 & ~3):][:2 * w]):
                    for shift, n in zip((bits[1] + bits[2], bits[2], 0), bits):
                        full = (1 << n) - 1
                        out += bytes([((v >> shift & full) * 510 + full) // (2 * full)])
            want = want[:-len(out)] + out
        if len(other) != len(want) or any(abs(a - b) > bool(bits) for a, b in zip(want, other)):
            raise SystemExit(f"{name}: Pillow and ImageMagick do not agree")
        sample(name + ".bmp", data, want)

    convert = lambda data, *args: run(CONVERT, "ppm:-", "-compress", "None", *args, stdin=data)
    for w, h in ((1, 1), (3, 2), (31, 17), (32, 5)):
        colors = ppm(w, h, scene)
        size = f"{w}x{h}"
        add("24-" + size, convert(colors, "-type", "TrueColor", "bmp3:-"))
        add("24-core-" + size, convert(colors, "-type", "TrueColor", "bmp2:-"))
        add("24-v5-" + size, convert(colors, "-type", "TrueColor", "bmp:-"))
        add("32-v5-" + size, convert(colors, "-alpha", "set", "-channel", "A", "-evaluate", "set", "50%", "+channel", "bmp:-"))
        to = io.BytesIO()
        Image.open(io.BytesIO(colors)).convert("RGBA").save(to, "BMP")
        add("32-" + size, to.getvalue())
        add("565-" + size, convert(colors, "-define", "bmp:subtype=RGB565", "bmp:-"), (5, 6, 5))
        add("555-" + size, convert(colors, "-define", "bmp:subtype=RGB555", "bmp:-"), (5, 5, 5))
        for bits in (1, 4, 8):
            few = convert(colors, "+dither", "-colors", str(1 << bits), "ppm:-")
            add(f"{bits}-{size}", convert(few, "-type", "Palette", "-depth", str(bits), "bmp3:-"))
            add(f"{bits}-core-{size}", convert(few, "-type", "Palette", "-depth", str(bits), "bmp2:-"))
            if bits == 8:
                add("rle8-" + size, convert(few, "-type", "Palette", "-compress", "RLE", "bmp3:-"))
        to = io.BytesIO()
        Image.open(io.BytesIO(colors)).convert("L").save(to, "BMP")
        add("gray-" + size, to.getvalue())
    # No encoder at hand writes RLE with gaps or with four bits: these streams are laid out by hand, and so are their pixels.
    colours = [(i * 7, 255 - i * 9, i * 3) for i in range(16)]
    for name, bits, compression, stream, rows in (
            ("gaps", 8, 1, "0301 0304 0004 05060708 0000 0203 0002 0200 0609 0000 0002 0001 0a0b 0000 050c 0001",
             "ccccc00000 bbbbbbbbbb 0000000000 3300999999 1114445678"),
            ("gaps", 4, 2, "0a12 0000 0534 0005 56789000 0000 02aa 0002 0300 0511 0000 0002 0001 03de 0001",
             "ded0000000 0000000000 aa00011111 3434356789 1212121212"),
            ("1x1", 4, 2, "0150 0000 0001", "5"),
            ("3x2", 4, 2, "0003 1230 0000 0145 0223 0001", "423 123"),
            ("long", 4, 2, "001f 0123456789abcdef0123456789abcde0 0000 1f78 0000 02c3 001d 33445566778899aabbccddeeff00 10 00 0001",
             "c333445566778899aabbccddeeff001 7878787878787878787878787878787 0123456789abcdef0123456789abcde")):
        data, rows = bytes.fromhex(stream), rows.split()
        head = struct.pack("<IiiHHIIiiII", 40, len(rows[0]), len(rows), 1, bits, compression, len(data), 0, 0, 16, 0)
        head += b"".join(bytes((b, g, r, 0)) for r, g, b in colours)
        data = b"BM" + struct.pack("<IHHI", 14 + len(head) + len(data), 0, 0, 14 + len(head)) + head + data
        pixels = bytes(v for row in rows for i in row for v in colours[int(i, 16)])
        sample(f"rle{bits}-{name}.bmp", data, b"P6\n%d %d\n255\n" % (len(rows[0]), len(rows)) + pixels)


def pnms():
    for kind in "2356":
        for maxval in (1, 7, 100, 255, 256, 1000, 65535):
            for w, h in ((1, 1), (7, 5), (20, 3)):
                channels = 3 if kind in "36" else 1
                values = [(x * 977 + y * 331 + c * 12347 + x * y * 53) * 5 % 65536 for y in range(h) for x in range(w) for c in range(channels)]
                deep = b"P%d\n%d %d\n65535\n" % (6 if channels == 3 else 5, w, h) + struct.pack(f">{len(values)}H", *values)
                data = run("pamdepth", str(maxval), stdin=deep)
                pixels = run("pamdepth", "255", stdin=data)
                if channels == 1:
                    pixels = run("pgmtoppm", "white", stdin=pixels)
                if kind in "23":
                    plain = run("pnmtoplainpnm", stdin=data)
                    if plain[:2] == b"P1":  # of one bit netpbm makes a bitmap, which is no sample here
                        plain = b"P2\n%d %d\n1\n" % (w, h) + b" ".join(b"%d" % v for v in data[-w * h:]) + b"\n"
                    data = plain
                sample(f"p{kind}-{maxval}-{w}x{h}.pnm", data, pixels)


def webps():
    with tempfile.TemporaryDirectory() as d:
        def cwebp(pixels, *args):
            write(d + "/in.pam", pixels)
            run("cwebp", "-quiet", *args, "-o", d + "/out.webp", "--", d + "/in.pam")
            return read(d + "/out.webp")

        def mux(data, *args):
            write(d + "/in.webp", data)
            write(d + "/extra", b"profile")
            run("webpmux", *args, d + "/in.webp", "-o", d + "/out.webp")
            return read(d + "/out.webp")

        def add(name, data):
            write(d + "/x.webp", data)
            sample(name + ".webp", data, run("dwebp", "-quiet", "-ppm", d + "/x.webp", "-o", "-"))

        def alpha(w, h):
            return b"P7\nWIDTH %d\nHEIGHT %d\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n" % (w, h) + \
                bytes(v & 255 for y in range(h) for x in range(w) for v in (*scene(x, y), 255 - 3 * x))

        for w, h in ((1, 1), (2, 5), (33, 20)):
            data = cwebp(alpha(w, h), "-lossless", "-exact")
            add(f"lossless-{w}x{h}", data)
            add(f"lossless-extended-{w}x{h}", mux(data, "-set", "icc", d + "/extra"))
        for w, h in PLAIN:
            add(f"plain-{w}x{h}", cwebp(ppm(w, h, scene), "-lossless", "-z", "0"))
        for w, h in ((1, 1), (30, 20), (33, 19)):
            add(f"lossy-{w}x{h}", cwebp(ppm(w, h, scene), "-q", "75"))
        add("lossy-alpha", cwebp(alpha(30, 20), "-q", "60"))
        add("lossless-palette", cwebp(ppm(30, 20, lambda x, y: scene(x // 10, y // 5)), "-lossless", "-m", "6"))
        write("flat.webp", cwebp(ppm(2000, 2000, lambda x, y: (100, 100, 100)), "-q", "0", "-m", "6", "-segments", "1"))
        # A first frame that does not fill the canvas, and a second one.
        for name, how in (("animated-lossy", ("-q", "75")), ("animated-lossless", ("-lossless",))):
            for i in range(2):
                write(f"{d}/{i}.webp", cwebp(ppm(20, 12, lambda x, y: scene(x + 5 * i, y)), *how))
            write(d + "/canvas.webp", cwebp(alpha(30, 20), "-lossless"))
            run("webpmux", "-frame", d + "/0.webp", "+100+6+4+0", "-frame", d + "/1.webp", "+100+10+8+0",
                "-frame", d + "/canvas.webp", "+100+0+0+0", "-loop", "1", "-o", name + ".webp")
            first = Image.open(name + ".webp").convert("RGB")
            write(name + ".ppm", b"P6\n%d %d\n255\n" % first.size + first.tobytes())


def oriented():
    """What other programs write as EXIF, and show."""
    image = Image.open(io.BytesIO(ppm(16, 12, scene)))
    for orientation in range(1, 9):
        for kind, options in (("jpg", {"quality": 100, "subsampling": 0}), ("png", {}), ("webp", {"lossless": True})):
            exif = Image.Exif()
            exif[0x010E] = "a description"
            exif[0x0112] = orientation
            to = io.BytesIO()
            image.save(to, {"jpg": "JPEG"}.get(kind, kind.upper()), exif=exif, **options)
            name = f"oriented-{orientation}.{kind}"
            upright = ImageOps.exif_transpose(Image.open(to)).convert("RGB")
            write("oriented/" + name, to.getvalue())
            references["oriented/" + name + ".ppm"] = b"P6\n%d %d\n255\n" % upright.size + upright.tobytes()


shutil.rmtree("oriented", ignore_errors=True)
os.mkdir("oriented")
for make in (jpegs, progressive, refused, pngs, bmps, pnms, webps, oriented):
    make()
with open("reference.tar.gz", "wb") as out, gzip.GzipFile("", "wb", 9, out, 0) as z, tarfile.open(fileobj=z, mode="w", format=tarfile.USTAR_FORMAT) as t:
    for name in sorted(references):
        info = tarfile.TarInfo(name)
        info.size = len(references[name])
        t.addfile(info, io.BytesIO(references[name]))

# Not among them: what Go's decoders cannot read, and arithmetic coding, which libjpeg-turbo can be built without.
for name in ("ycc-1x1-50x39.jpg ycc-2x1-50x39.jpg ycc-1x2-50x39.jpg ycc-4x1-50x39.jpg progressive.jpg restarts.jpg gray-2x2.jpg rgb.jpg cmyk.jpg "
             "cmyk-progressive.jpg ycck.jpg gray-1-33x19.png gray-2-33x19.png gray-4-33x19-interlaced.png gray-alpha-8-33x19.png "
             "gray-alpha-16-33x19-interlaced.png rgb-8-33x19-interlaced.png rgb-16-33x19-interlaced.png rgba-8-33x19-interlaced.png "
             "palette-2-33x19-interlaced.png palette-8-33x19.png 32-v5-31x17.bmp 24-v5-31x17.bmp gray-31x17.bmp lossy-33x19.webp "
             "lossy-alpha.webp lossless-33x20.webp lossless-extended-33x20.webp lossless-palette.webp").split():
    shutil.copy("samples/" + name, RARE)
shutil.copy("samples/p5-255-20x3.pnm", RARE + "/p5-255-20x3.pgm")
