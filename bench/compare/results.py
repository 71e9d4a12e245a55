"""Ratios, means and losses of the document that compare.py writes.

The document (version 2) has "subject", the engine that is judged, "peers", "tolerance" (None, or how far a ratio may be
from 1 when an engine is compared with itself), and "rows", one per model, precision and number of threads:
{"model", "path", "precision", "threads", "source", "engines": {name: result of measure_case}, "ratios", "cold"}.
A ratio is a peer's figure over the subject's: above 1, the subject is better.
"""

import math
import statistics

LOSS = 0.97
OWN_TOLERANCE = 0.03

# What is compared, and its name in tables: the steady time by blocks, and of cold processes the rest.
FIGURES = {"time": "time", "create": "session creation", "first": "first run", "memory": "peak memory"}


def summarize_blocks(row, subject, peers):
    """Adds the median of each engine and "ratios" to a row: by peer the median and the quartiles over alternations."""
    for result in row["engines"].values():
        if "blocks_ms" in result:
            result["median_ms"] = statistics.median(result["blocks_ms"])
    row["ratios"] = {}
    own = row["engines"][subject].get("blocks_ms")
    for peer in peers:
        theirs = row["engines"].get(peer, {}).get("blocks_ms")
        if own and theirs:
            each = [t / o for o, t in zip(own, theirs)]
            low, middle, high = statistics.quantiles(each, method="inclusive") if len(each) > 1 else each * 3
            row["ratios"][peer] = {"median": middle, "low": low, "high": high}


def value(row, engine, figure):
    """A figure of an engine (milliseconds, or bytes above those after the imports), or None."""
    if figure == "time":
        return row["engines"].get(engine, {}).get("median_ms")
    cold = row.get("cold", {}).get(engine, {})
    if "peak_bytes" not in cold:
        return None
    return cold["peak_bytes"] - cold["imports_bytes"] if figure == "memory" else cold[f"{figure}_ms"]


def ratio(row, subject, peer, figure="time"):
    """The ratio of a figure, or None when one of the two lacks it."""
    if figure == "time":
        return row["ratios"].get(peer, {}).get("median")
    own, theirs = value(row, subject, figure), value(row, peer, figure)
    return theirs / own if own and theirs and own > 0 < theirs else None


def is_loss(number, tolerance=None):
    """Whether a ratio is to be shown in red: a loss, or too far from 1 for an engine beside itself."""
    if number is None:
        return False
    return number < LOSS if tolerance is None else not 1 - tolerance <= number <= 1 + tolerance


def loses(document, row, peer, figure="time"):
    """Whether a row's ratio of that figure is to be shown in red. Only times are judged of an engine beside itself."""
    tolerance = document["tolerance"]
    if tolerance is not None and figure != "time":
        return False
    return is_loss(ratio(row, document["subject"], peer, figure), tolerance)


def figures_of(document):
    """The figures that any row has."""
    cold = any("cold" in row for row in document["rows"])
    return [f for f in FIGURES if f == "time" or cold]


def geometric_mean(numbers):
    """Of positive numbers; None of none."""
    numbers = list(numbers)
    return math.exp(math.fsum(map(math.log, numbers)) / len(numbers)) if numbers else None


def geometric_means(document):
    """One dictionary per figure, peer, precision and threads that a ratio exists of: "mean" and whether it is a "loss",
    the ratio that is "worst" with its "model", the number of "losses", and "models", those compared, "of" how many."""
    groups = {}
    for row in document["rows"]:
        for figure in figures_of(document):
            for peer in document["peers"]:
                groups.setdefault((figure, peer, row["precision"], row["threads"]), []).append(row)
    means, own = [], document["tolerance"] is not None
    badness = lambda found: -abs(math.log(found[0])) if own else found[0]
    order = {figure: index for index, figure in enumerate(FIGURES)}
    for (figure, peer, precision, threads), rows in sorted(groups.items(), key=lambda g: order[g[0][0]]):
        found = [(r, row) for row in rows if (r := ratio(row, document["subject"], peer, figure)) is not None]
        if found:
            mean, (worst, row) = geometric_mean(r for r, _ in found), min(found, key=badness)
            judged = figure == "time" or not own
            means.append(
                {
                    "figure": figure,
                    "peer": peer,
                    "precision": precision,
                    "threads": threads,
                    "mean": mean,
                    "loss": judged and is_loss(mean, document["tolerance"]),
                    "worst": worst,
                    "model": row["model"],
                    "losses": sum(loses(document, row, peer, figure) for _, row in found),
                    "models": len(found),
                    "of": len(rows),
                }
            )
    return means


def losses(document):
    """Every ratio to be shown in red, the lowest first within each figure."""
    found = [
        {
            "figure": figure,
            "model": row["model"],
            "precision": row["precision"],
            "threads": row["threads"],
            "peer": peer,
            "ratio": ratio(row, document["subject"], peer, figure),
        }
        for figure in figures_of(document)
        for row in document["rows"]
        for peer in document["peers"]
        if loses(document, row, peer, figure)
    ]
    order = list(FIGURES)
    return sorted(found, key=lambda loss: (order.index(loss["figure"]), loss["ratio"]))


def troubles(row):
    """["NAME: why"] of the engines of a row that failed, cold ones too, or whose outputs are no numbers to compare."""
    found = []
    for name, result in row["engines"].items():
        if "error" in result:
            found.append(f"{name}: {result['error']}")
        elif (result.get("difference") or {}).get("reason"):
            found.append(f"{name}: {result['difference']['reason']}")
    for name, cold in row.get("cold", {}).items():
        if "error" in cold and f"{name}: {cold['error']}" not in found:
            found.append(f"{name}, cold: {cold['error']}")
    return found


def disagreements(document, limit):
    """Texts for the rows whose subject has no difference to expected outputs, or one above the limit."""
    found = []
    for row in document["rows"]:
        result = row["engines"][document["subject"]]
        difference = result.get("difference") or {}
        relative = difference.get("relative")
        if relative is None or not relative <= limit:
            why = result.get("error") or result.get("unavailable") or difference.get("reason")
            why = why or ("there are no other outputs" if relative is None else f"{relative:.2e}")
            found.append(f"{row['model']}, {row['precision']}, threads {row['threads']}: {why}")
    return found
