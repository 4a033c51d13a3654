"""Parquet schemas of the pipeline's files, and their deterministic encoding."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fedrepro.errors import FedreproError

LABEL = pa.dictionary(pa.int8(), pa.string())
TRAIN_METRICS = pa.schema(
    {
        "round": pa.int32(),  # completed rounds; 0 = initial model
        "evaluated": LABEL,  # which model: server, client_mean
        "split": LABEL,  # train, test
        "loss": pa.float64(),  # mean cross-entropy, nats
        "accuracy": pa.float64(),  # fraction in [0, 1]
        "consensus_error": pa.float64(),  # null where clients keep no model
        "active": pa.int32(),  # clients available in the last completed round; 0 at round 0
    }
)
SCALAR_METRICS = pa.schema(
    {
        "round": pa.int32(),  # completed rounds
        "trials": pa.int32(),  # trials averaged over: the first 100, all of them, or 1
        "trial": pa.int32(),  # which trial, where it is a single one; else null
        "gap": pa.float64(),  # f(x) - f*, mean over trials
        "gap_se": pa.float64(),  # its standard error; null for a single trial
        "squared_gradient": pa.float64(),  # f'(x)^2, mean over trials
        "squared_gradient_se": pa.float64(),
    }
)
GAME_METRICS = pa.schema(
    {
        "round": pa.int32(),  # completed rounds; 0 = initial profile
        "client": pa.int32(),
        "contribution": pa.float64(),  # N_i, images
        "marginal": pa.float64(),  # F_i, the derivative of the client's loss by N_i
        "regret": pa.float64(),  # what the client could still gain alone; all zero: an equilibrium
        "equilibrium": pa.float64(),  # N_i* in closed form, of least welfare loss; null where unknown
        "upper": pa.float64(),  # N_max_i, images
    }
)
PARTITION = pa.schema(
    {"sample": pa.int32(), "label": pa.uint8(), "client": pa.int32()}  # in data-set order
)
TRACE = pa.schema(  # sorted by client, then round
    {
        "client": pa.int32(),
        "round": pa.int32(),
        "probability": pa.float64(),  # p_i^t, clipped to [0, 1]
        "active": pa.bool_(),
    }
)


def from_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """A table of `rows`, without the import of pandas that pyarrow's own conversions trigger.

    Columns may be numbers, or labels (dictionaries of strings); a number may be None.
    """
    columns = [_array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def column(table: pa.Table, name: str) -> NDArray[Any]:
    """Values of a column of numbers or truth values without nulls, again without pandas."""
    array = table[name].combine_chunks()
    content = array.buffers()[1]
    if pa.types.is_boolean(array.type):
        bits = np.unpackbits(np.frombuffer(content, dtype=np.uint8), bitorder="little")
        return bits[array.offset : array.offset + len(array)].astype(np.bool_)
    dtype = array.type.to_pandas_dtype()
    return np.frombuffer(
        content, dtype=dtype, count=len(array), offset=array.offset * np.dtype(dtype).itemsize
    )


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        labels = list(dict.fromkeys(values))
        text = [label.encode() for label in labels]
        ends = np.cumsum([0, *map(len, text)], dtype=np.int32)
        strings = pa.Array.from_buffers(
            pa.string(), len(text), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(text))]
        )
        return pa.DictionaryArray.from_arrays(
            _array([labels.index(value) for value in values], kind.index_type), strings
        )
    known = np.array([value is not None for value in values], dtype=np.bool_)
    content = np.array([0 if value is None else value for value in values], dtype=kind.to_pandas_dtype())
    validity = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(content)])


def encode(table: pa.Table) -> bytes:
    """Parquet bytes of a table: equal tables give equal bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", store_schema=True)
    return sink.getvalue().to_pybytes()


def decode(content: bytes) -> pa.Table:
    """The table of `encode`d bytes.

    Read by this thread alone: another one that lets go of the bytes while Python ends would abort it.
    """
    return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)


def read(path: Path, schema: pa.Schema) -> pa.Table:
    """Read a Parquet file of a known schema.

    Raises
    ------
    FedreproError
        If the file is missing, truncated, not Parquet, or of another schema.
    """
    try:
        table = pq.ParquetFile(path).read()
    except (OSError, pa.ArrowInvalid) as error:
        reason = str(error).splitlines()[0]
        raise FedreproError(
            f"{path} is not a readable Parquet file ({reason}); delete it and run snakemake again"
        ) from error
    if table.schema.names != schema.names:
        raise FedreproError(
            f"{path} has columns {table.schema.names}, expected {schema.names}; "
            "delete it and run snakemake again"
        )
    return table
