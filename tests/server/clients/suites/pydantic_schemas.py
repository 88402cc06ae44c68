#!/usr/bin/env python3
"""Prints what pydantic 2 makes of every kind of field as {name: schema}, for pydantic.mjs.

Needs python3-pydantic and python3-email-validator, wherever these are:
    python3 tests/server/clients/suites/pydantic_schemas.py > schemas.json
"""

import collections
import datetime
import decimal
import enum
import fractions
import ipaddress
import json
import pathlib
import re
import sys
import typing
import uuid

import pydantic
from pydantic import Field
from typing_extensions import NamedTuple, NotRequired, TypedDict


def newer(*names):
    """Kinds that not every pydantic 2 has."""
    return {name: getattr(pydantic, name) for name in names if hasattr(pydantic, name)}


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Point(NamedTuple):
    x: int
    y: int = 0


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Fox(pydantic.BaseModel):
    kind: typing.Literal["fox"]
    tail: int


class Crow(pydantic.BaseModel):
    kind: typing.Literal["crow"]
    wings: bool


class Tree(pydantic.BaseModel):
    value: int
    children: list["Tree"] = []


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    name: str


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    name: str


class Typed(pydantic.BaseModel):
    __pydantic_extra__: dict[str, int]
    model_config = pydantic.ConfigDict(extra="allow")
    name: str


@pydantic.dataclasses.dataclass
class Card:
    name: str
    rank: int = 1


class Bag(pydantic.RootModel[list[int]]):
    pass


KINDS = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "bytes": bytes,
    "None": None,
    "Any": typing.Any,
    "object": object,
    "Decimal": decimal.Decimal,
    "Fraction": fractions.Fraction,
    "complex": complex,
    "datetime": datetime.datetime,
    "date": datetime.date,
    "time": datetime.time,
    "timedelta": datetime.timedelta,
    "UUID": uuid.UUID,
    "Path": pathlib.Path,
    "Pattern": re.Pattern,
    "IPv4Address": ipaddress.IPv4Address,
    "IPv6Address": ipaddress.IPv6Address,
    "IPv4Interface": ipaddress.IPv4Interface,
    "IPv6Interface": ipaddress.IPv6Interface,
    "IPv4Network": ipaddress.IPv4Network,
    "IPv6Network": ipaddress.IPv6Network,
    "Enum": Colour,
    "IntEnum": Size,
    "Literal": typing.Literal["fox", 7, True, None],
    "Optional": int | None,
    "Union": int | str | bool,
    "list": list,
    "list[int]": list[int],
    "deque": collections.deque[int],
    "Sequence": typing.Sequence[int],
    "Iterable": typing.Iterable[int],
    "set[bool]": set[bool],
    "set[Enum]": set[Colour],
    "set[int]": set[int],
    "frozenset[Literal]": frozenset[typing.Literal["a", "b", "c"]],
    "tuple": tuple,
    "tuple[int, str]": tuple[int, str],
    "tuple[int, ...]": tuple[int, ...],
    "dict": dict,
    "dict[str, int]": dict[str, int],
    "dict[int, str]": dict[int, str],
    "dict[Enum, int]": dict[Colour, int],
    "defaultdict": collections.defaultdict[str, int],
    "OrderedDict": collections.OrderedDict[str, int],
    "Counter": typing.Counter[str],
    "Mapping": typing.Mapping[str, int],
    "NamedTuple": Point,
    "TypedDict": Movie,
    "dataclass": Card,
    "BaseModel": Fox,
    "BaseModel, forbid": Strict,
    "BaseModel, allow": Open,
    "BaseModel, typed extra": Typed,
    "RootModel": Bag,
    "recursive": Tree,
    "discriminated": typing.Annotated[Fox | Crow, Field(discriminator="kind")],
    "list of unions": list[Fox | Crow],
    "StrictInt": pydantic.StrictInt,
    "StrictStr": pydantic.StrictStr,
    "conint": typing.Annotated[int, Field(gt=3, le=90, multiple_of=3)],
    "confloat": typing.Annotated[float, Field(ge=0.5, lt=2.5)],
    "multiple of a fraction": typing.Annotated[float, Field(ge=0, le=10, multiple_of=0.5)],
    "condecimal": typing.Annotated[decimal.Decimal, Field(max_digits=5, decimal_places=2)],
    "constr": typing.Annotated[str, Field(min_length=2, max_length=9)],
    "constr, pattern": typing.Annotated[str, Field(pattern=r"^[a-z]{2,5}-\d+$")],
    "conlist": typing.Annotated[list[int], Field(min_length=1, max_length=4)],
    "conset": typing.Annotated[set[Colour], Field(min_length=1, max_length=2)],
    "condate": pydantic.PastDate,
    "FutureDatetime": pydantic.FutureDatetime,
    "AwareDatetime": pydantic.AwareDatetime,
    "NaiveDatetime": pydantic.NaiveDatetime,
    "PositiveInt": pydantic.PositiveInt,
    "NonNegativeFloat": pydantic.NonNegativeFloat,
    "FiniteFloat": pydantic.FiniteFloat,
    "UUID1": pydantic.UUID1,
    "UUID4": pydantic.UUID4,
    **newer("UUID6", "UUID7", "UUID8", "SocketPath", "FtpUrl", "NatsDsn", "ClickHouseDsn", "SnowflakeDsn"),
    "EmailStr": pydantic.EmailStr,
    "NameEmail": pydantic.NameEmail,
    "AnyUrl": pydantic.AnyUrl,
    "HttpUrl": pydantic.HttpUrl,
    "WebsocketUrl": pydantic.WebsocketUrl,
    "FileUrl": pydantic.FileUrl,
    "PostgresDsn": pydantic.PostgresDsn,
    "RedisDsn": pydantic.RedisDsn,
    "MongoDsn": pydantic.MongoDsn,
    "IPvAnyAddress": pydantic.IPvAnyAddress,
    "IPvAnyInterface": pydantic.IPvAnyInterface,
    "IPvAnyNetwork": pydantic.IPvAnyNetwork,
    "Json": pydantic.Json,
    "Json[int]": pydantic.Json[int],
    "SecretStr": pydantic.SecretStr,
    "SecretBytes": pydantic.SecretBytes,
    "Secret[int]": pydantic.Secret[int],
    "ByteSize": pydantic.ByteSize,
    "FilePath": pydantic.FilePath,
    "NewPath": pydantic.NewPath,
    "DirectoryPath": pydantic.DirectoryPath,
    "Base64Bytes": pydantic.Base64Bytes,
    "Base64Str": pydantic.Base64Str,
    "Base64UrlStr": pydantic.Base64UrlStr,
    "ImportString": pydantic.ImportString,
    "JsonValue": pydantic.JsonValue,
}


def main():
    schemas = {}
    for name, kind in KINDS.items():
        try:
            schemas[name] = pydantic.create_model("Answer", field=(kind, ...)).model_json_schema()
        except pydantic.PydanticUserError as error:
            print(f"pydantic makes no JSON Schema of {name}: {error}", file=sys.stderr)
    print(json.dumps(schemas))


main()
