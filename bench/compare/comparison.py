"""The rows of a comparison: every model, precision and number of threads on every engine."""

import pathlib
import pickle
import tempfile
import time

from cold import launch, measure_engines
from inputs import short_names
from measure import CannotRun, measure_case, prepare
from results import OWN_TOLERANCE, summarize_blocks


def new_document(subject, peers, engines, settings, own=False):
    """A document as results.py describes it, without rows."""
    return {
        "version": 2,
        "subject": subject,
        "peers": list(peers),
        "tolerance": OWN_TOLERANCE if own else None,
        "versions": {name: engine.version for name, engine in engines.items()},
        "settings": settings,
        "rows": [],
    }


def lacking(document, engines):
    """Lines about precisions that an engine lacks, or that say less than their name."""
    lines = []
    for precision in document["settings"]["precision"]:
        for name in (document["subject"], *document["peers"]):
            if reason := engines[name].lacks(precision):
                lines.append(f"{name}: {precision} is not available, {reason}")
            elif note := engines[name].note(precision):
                lines.append(f"{name}: {note}")
    return lines


def run(document, models, engines, rng, on_row, progress=lambda text: None, start=launch, clock=time):
    """Appends the rows of all models to the document, and gives each to `on_row`; `start` launches a cold process."""
    settings, subject, peers = document["settings"], document["subject"], document["peers"]
    for path, model in zip(models, short_names(models)):
        progress(f"{model}: inputs and expected outputs")
        try:
            order = {name: engines[name] for name in (*peers, subject)}
            prepared, reasons = (
                prepare(path, order, settings["threads"][0], settings["shapes"], settings["stored"]),
                None,
            )
        except CannotRun as error:
            prepared, reasons = None, error.reasons
        for precision in settings["precision"]:
            for threads in settings["threads"]:
                row = {"model": model, "path": str(path), "precision": precision, "threads": threads}
                told = lambda text: progress(f"{model}, {precision}, threads {threads}: {text}")
                if prepared:
                    results = measure_case(prepared, engines, threads, precision, settings, rng, told, clock)
                    row |= {"source": prepared.source, "engines": results}
                else:
                    row |= {"source": None, "engines": {name: {"error": reasons[name]} for name in engines}}
                if prepared and settings["cold"]:
                    row["cold"] = _cold(row, prepared, engines, settings, rng, told, start)
                summarize_blocks(row, subject, peers)
                document["rows"].append(row)
                on_row(row)


def _cold(row, prepared, engines, settings, rng, progress, start):
    """The cold figures of the engines that ran."""
    names = {name: engines[name].name for name, result in row["engines"].items() if "blocks_ms" in result}
    with tempfile.TemporaryDirectory() as folder:
        feeds = pathlib.Path(folder) / "feeds"
        feeds.write_bytes(pickle.dumps(prepared.feeds))
        job = {"path": row["path"], "threads": row["threads"], "precision": row["precision"]}
        job |= {"feeds": str(feeds), "block": settings["block"]}
        job["flush_denormals"] = settings["flush_denormals"]
        return measure_engines(names, job, settings["cold"], rng, progress, start)
