#!/usr/bin/env python3
"""Writes a small replacement of ICU's data, as assembler: of the data in libicudata.a those items that Kvasir asks for.

Usage: cut_icu_data.py LIBICUDATA_A OUT.s

The data is one file: a header, then a count and a table of (offset of name, offset of data) pairs, both from the
table's beginning, sorted by name; then the names; then the data. ICU's code finds the file by the symbol icudtNN_dat.
"""
import struct
import sys

# Properties, letter cases and the canonical normal forms are in ICU's code; the others of Unicode, and where graphemes
# end, are here.
KEEP = ("nfkc.nrm", "brkitr/char.brk", "brkitr/root.res")


def data_in(archive):
    """The one file in the archive's one object: it begins with its header's magic numbers."""
    at = archive.find(b"\xda\x27\x14\x00")  # magic, then the UDataInfo of 20 bytes
    while at >= 0:
        size, = struct.unpack_from("<H", archive, at - 2)
        if archive[at + 10:at + 14] == b"CmnD":
            return archive[at - 2:], size
        at = archive.find(b"\xda\x27\x14\x00", at + 1)
    sys.exit("there is no ICU data in this library")


def items_of(table):
    count, = struct.unpack_from("<I", table)
    offsets = [struct.unpack_from("<II", table, 4 + 8 * i) for i in range(count)]
    for i, (name_at, data_at) in enumerate(offsets):
        name = table[name_at:table.index(b"\0", name_at)].decode()
        end = offsets[i + 1][1] if i + 1 < count else None  # the last item's end is not told
        yield name, data_at, end


def main():
    archive = open(sys.argv[1], "rb").read()
    data, header_size = data_in(archive)
    table = data[header_size:]
    kept = []
    for name, begin, end in items_of(table):
        if name.partition("/")[2] in KEEP:
            assert end is not None, f"{name} is the last item"
            kept.append((name, table[begin:end]))
    missing = set(KEEP) - {name.partition("/")[2] for name, _ in kept}
    assert not missing, f"ICU's data has no {missing}"

    names = b"".join(name.encode() + b"\0" for name, _ in kept)
    first = 4 + 8 * len(kept)
    body = (first + len(names) + 15) // 16 * 16
    out = struct.pack("<I", len(kept))
    name_at, data_at = first, body
    for name, item in kept:
        out += struct.pack("<II", name_at, data_at)
        name_at += len(name) + 1
        data_at += (len(item) + 15) // 16 * 16
    out = (out + names).ljust(body, b"\0")
    for _, item in kept:
        out += item.ljust((len(item) + 15) // 16 * 16, b"\0")
    whole = data[:header_size] + out

    symbol = kept[0][0].split("/")[0].rstrip("l") + "_dat"  # icudt72l/nfkc.nrm: the last letter is the byte order
    with open(sys.argv[2], "w") as file:
        file.write(f".section .rodata\n.globl {symbol}\n.balign 16\n{symbol}:\n")
        for at in range(0, len(whole), 16):
            file.write(".byte " + ",".join(str(byte) for byte in whole[at:at + 16]) + "\n")
        file.write('.section .note.GNU-stack,"",@progbits\n')


if __name__ == "__main__":
    main()
