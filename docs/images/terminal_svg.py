#!/usr/bin/env python3
"""Draws terminal output as an SVG picture.

    target/release/afterwrite demo | docs/images/terminal_svg.py "afterwrite demo" > docs/images/demo.svg

Reads the output from standard input; the argument is the command that is shown above it. Long output is cut in the middle:
--first and --last give the number of lines to keep. Nothing is drawn that the command did not print.
"""

import argparse
import html
import sys

WIDTH, LINE, LEFT, TOP = 8.43, 19, 20, 62
BACKGROUND, BAR, TEXT, DIM, GOOD, BAD, BLUE = (
    "#16181d", "#24272e", "#d7dae0", "#7d8590", "#7ee787", "#ff7b72", "#79c0ff")
BLOCKS = set("▁▂▃▄▅▆▇█▏▎▍▌▋▊▉")
FRAME = set("─│┌┐└┘├┤┬┴┼━┃╞╡╪═╎╌")


def spans(line: str) -> str:
    """The line as runs of one colour each: frames are dim, bars are blue, ticks are green, crosses are red."""
    kind = {**dict.fromkeys(FRAME, DIM), **dict.fromkeys(BLOCKS, BLUE), "✓": GOOD, "✔": GOOD, "✗": BAD, "✘": BAD}
    runs: list[tuple[str, str]] = []
    for character in line:
        wanted = kind.get(character, TEXT)
        if runs and runs[-1][0] == wanted:
            runs[-1] = (wanted, runs[-1][1] + character)
        else:
            runs.append((wanted, character))
    return "".join(f'<tspan fill="{fill}">{html.escape(text)}</tspan>' for fill, text in runs)


def picture(command: str, lines: list[str]) -> str:
    columns = max([len(line) for line in lines] + [len(command) + 2, 60])
    width, height = round(LEFT * 2 + columns * WIDTH), TOP + LINE * (len(lines) + 1) + 14
    rows = [f'<text x="{LEFT}" y="{TOP}"><tspan fill="{GOOD}">$ </tspan><tspan fill="{TEXT}">{html.escape(command)}</tspan></text>']
    rows += [f'<text x="{LEFT}" y="{TOP + LINE * (row + 1)}">{spans(line)}</text>' for row, line in enumerate(lines) if line.strip()]
    dots = "".join(f'<circle cx="{LEFT + 20 * place}" cy="19" r="6" fill="{fill}"/>' for place, fill in enumerate((BAD, "#e3b341", GOOD)))
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>Output of {html.escape(command)}</title>",
        "<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}</style>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>',
        f'<path d="M0 38V8a8 8 0 0 1 8-8h{width - 16}a8 8 0 0 1 8 8v30z" fill="{BAR}"/>{dots}',
        *rows,
        "</svg>",
        "",
    ])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("command", help="the command that printed the output")
    arguments.add_argument("--first", type=int, default=200, help="lines kept from the beginning (default: 200)")
    arguments.add_argument("--last", type=int, default=200, help="lines kept from the end (default: 200)")
    chosen = arguments.parse_args()
    lines = [line.rstrip() for line in sys.stdin.read().expandtabs().splitlines()]
    if len(lines) > chosen.first + chosen.last:
        lines = lines[: chosen.first] + ["…"] + lines[len(lines) - chosen.last :]
    sys.stdout.write(picture(chosen.command, lines))


if __name__ == "__main__":
    main()
