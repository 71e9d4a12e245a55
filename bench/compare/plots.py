"""Plots of a document as SVG text: bars of ratios, and of cold figures. Drawn by matplotlib, if that is installed."""

import io
import math

from results import FIGURES, loses, ratio, value

INK = "#123456"  # replaced by the colour of the page's text
GOOD, BAD = "#3f8f6b", "#d64545"
ENGINES = ("#3b6fb6", "#e0913a", "#7d6bb0", "#6b7280")


def ratio_bars(document, peer, precision, threads):
    """[(model, ratio of times, whether it is a loss)], the highest first."""
    rows = [r for r in document["rows"] if (r["precision"], r["threads"]) == (precision, threads)]
    bars = [(row["model"], ratio(row, document["subject"], peer), loses(document, row, peer)) for row in rows]
    return sorted((bar for bar in bars if bar[1] is not None), key=lambda bar: -bar[1])


def figure_bars(document, figure, precision, threads):
    """[(model, {engine: figure})] of the models that any engine has the figure of, the largest of the subject first."""
    engines = [document["subject"], *document["peers"]]
    bars = []
    for row in document["rows"]:
        if (row["precision"], row["threads"]) == (precision, threads):
            values = {e: v for e in engines if (v := value(row, e, figure)) is not None}
            if values:
                bars.append((row["model"], values))
    return sorted(bars, key=lambda bar: -bar[1].get(document["subject"], 0))


def groups(document):
    """The (precision, threads) of the rows, in their order."""
    return list(dict.fromkeys((row["precision"], row["threads"]) for row in document["rows"]))


def available():
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def _axes(lines, salt):
    """A figure for that many lines of text, and its axes."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": salt, "font.size": 9})
    figure = Figure(figsize=(6.4, 0.55 + 0.21 * lines), layout="constrained")
    axes = figure.subplots()
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(INK)
    axes.tick_params(colors=INK, left=False)
    axes.grid(axis="x", color=INK, alpha=0.12, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _svg(figure, label):
    """The figure as an SVG element that takes the page's colour and font, and a width that fits."""
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor").replace("'DejaVu Sans'", "inherit")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def ticks(low, high, most=9):
    """At most that many ticks of a logarithmic axis of ratios: 1, and outwards from it those that stay apart."""
    steps = (1.1, 1.2, 1.3, 1.5, 1.7, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50, 70, 100, 200, 500, 1000)
    gap, found = (high / low) ** (1 / most), [1.0]
    for step in steps:
        if step <= high and step / found[-1] >= gap:
            found.append(step)
    for step in (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01):
        if step >= low and found[0] / step >= gap:
            found.insert(0, step)
    return found


def ratios_svg(document, peer, precision, threads):
    """Bars from 1 to each ratio on a logarithmic axis; None without any."""
    bars = ratio_bars(document, peer, precision, threads)
    if not bars:
        return None
    figure, axes = _axes(len(bars), f"{peer} {precision} {threads}")
    names, numbers, bad = zip(*bars)
    low, high = min(0.93, *numbers), max(1.08, *numbers)
    pad = (high / low) ** 0.12
    axes.set_xscale("log")
    axes.set_xlim(low / pad, high * pad)
    left, width = [min(n, 1) for n in numbers], [abs(n - 1) for n in numbers]
    axes.barh(range(len(bars)), width, left=left, height=0.68, color=[BAD if b else GOOD for b in bad])
    axes.axvline(1, color=INK, linewidth=1)
    for index, (n, b) in enumerate(zip(numbers, bad)):
        place = {"ha": "left", "xytext": (4, 0)} if n >= 1 else {"ha": "right", "xytext": (-4, 0)}
        color = BAD if b else INK
        axes.annotate(f"{n:.2f}", (n, index), textcoords="offset points", va="center", color=color, fontsize=8, **place)
    axes.set_yticks(range(len(bars)), names)
    marks = ticks(low / pad, high * pad)
    axes.set_xticks(marks, [f"{mark:g}" for mark in marks])
    axes.set_xticks([], minor=True)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    return _svg(figure, f"ratios of time to {peer}")


def figures_svg(document, figure_name, precision, threads):
    """Bars of one cold figure for each engine of each model, on a logarithmic axis from a power of ten; None without
    any. Milliseconds, or megabytes above those after the imports."""
    bars = figure_bars(document, figure_name, precision, threads)
    scale = 1e6 if figure_name == "memory" else 1
    bars = [(model, {e: v / scale for e, v in values.items() if v > 0}) for model, values in bars]
    colors = dict(zip((document["subject"], *document["peers"]), ENGINES))
    engines = [engine for engine in colors if any(engine in values for _, values in bars)]
    if not engines:
        return None
    from matplotlib.ticker import LogLocator, NullFormatter

    figure, axes = _axes(len(bars) * (0.4 + 0.7 * len(engines)) + 1, f"{figure_name} {precision} {threads}")
    numbers = [v for _, values in bars for v in values.values()]
    low, high = 10 ** math.floor(math.log10(min(numbers))), max(numbers)
    axes.set_xscale("log")
    axes.set_xlim(low, high * (high / low) ** 0.12)
    height = 0.84 / len(engines)
    for place, engine in enumerate(engines):
        known = [(index, values[engine]) for index, (_, values) in enumerate(bars) if engine in values]
        where = [index - 0.42 + height * (place + 0.5) for index, _ in known]
        lengths = [number for _, number in known]
        axes.barh(where, [n - low for n in lengths], 0.88 * height, low, color=colors[engine], label=engine)
        for y, n in zip(where, lengths):
            text = f"{n:.3g}" if n < 100 else f"{n:.0f}"
            axes.annotate(text, (n, y), (3, 0), textcoords="offset points", va="center", color=INK, fontsize=7)
    axes.set_yticks(range(len(bars)), [name for name, _ in bars])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 300 else (1,)))
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(which="minor", bottom=False)
    figure.legend(loc="outside upper right", ncols=len(engines), frameon=False, labelcolor=INK, fontsize=8)
    return _svg(figure, FIGURES[figure_name])
