"""A reading of a page as one HTML file that needs nothing else: text, figures and recording."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from pathlib import Path
from typing import Final

from asr.reading import Hesitation, Reading, ReadStatus, ReadWord
from asr.render.reading import counts, lines_of

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fdfcf8; --line: #767676;
  --misread: #b3261e; --skipped: #7b3fa0; --repeated: #8a5a00; --added: #00677d; --now: #ffe08a; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececec; --paper: #17181a; --line: #9a9a9a;
  --misread: #ff8a80; --skipped: #d7a6f5; --repeated: #f0c060; --added: #6fd3ea; --now: #5c4a00; } }
body { margin: 0 auto; max-width: 46rem; padding: 1rem 1.25rem 3rem; background: var(--paper);
  color: var(--ink); font: 1.05rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; }
audio { width: 100%; position: sticky; top: 0; }
dl { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; margin: 1rem 0; }
dl div { display: flex; gap: .4rem; } dt { color: var(--line); } dd { margin: 0; font-weight: 600; }
#page { font-size: 1.4rem; line-height: 2.4; }
#page p { margin: 0; }
#page p.begins { margin-top: 1em; }
.word { font: inherit; color: inherit; background: none; border: 0; border-radius: .2em;
  padding: 0 .1em; text-decoration-thickness: .12em; text-underline-offset: .2em; }
button.word { cursor: pointer; }
button.word:focus-visible { outline: .15em solid currentColor; }
.now { background: var(--now); }
.misread { color: var(--misread); text-decoration: underline wavy; }
.skipped { color: var(--skipped); text-decoration: line-through; }
.repeated { color: var(--repeated); text-decoration: underline double; }
.added { color: var(--added); font-style: italic; text-decoration: underline dotted; }
.pause { color: var(--line); }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap; }
rt { font-size: .6em; }
"""

# The script of the web page of the service plays the words.
_WORDS: Final = Path(__file__).parents[1] / "serve" / "page" / "words.js"
_SCRIPT: Final = """
const words = [...document.querySelectorAll("button.word")];
playWords(document.querySelector("audio"), words, (at) => {
  words[at].scrollIntoView({ block: "nearest" });
});
"""

# Nothing may be fetched; script and style are those of the file.
_POLICY: Final = (
    "default-src 'none'; media-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)


def to_html(reading: Reading, audio: bytes, media_type: str, title: str) -> str:
    """Return the page: a click on a word plays it, and the word being played is marked.

    audio: the recording as a file of a type that browsers play, such as "audio/flac".
    """
    source = f"data:{media_type};base64,{b64encode(audio).decode()}"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
<audio controls preload="auto" src="{source}"></audio>
<dl>{_figures(reading)}</dl>
<p>Click a word to play it; the arrow keys move between words. {_legend()}</p>
<div id="page">
{_lines(reading)}
</div>
</main>
<script type="module">{_script()}</script>
</body>
</html>
"""


def _legend() -> str:
    statuses = [each for each in ReadStatus if each is not ReadStatus.RIGHT]
    marked = (f'<span class="word {each}">{each.value}</span>' for each in statuses)
    return f'Marks: {", ".join(marked)}, <span class="pause">…</span> hesitation.'


def _script() -> str:
    return _WORDS.read_text("utf-8") + _SCRIPT


def _figures(reading: Reading) -> str:
    figures = [
        ("words reached", str(reading.reached)),
        ("of them right", f"{100 * reading.accuracy:.0f} %"),
        ("words a minute", f"{reading.words_per_minute:.0f}"),
        ("right a minute", f"{reading.right_words_per_minute:.0f}"),
        *((name, str(number)) for name, number in counts(reading)),
    ]
    return "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in figures)


def _lines(reading: Reading) -> str:
    hesitant = {each.word: each for each in reading.hesitations}
    lines = []
    for begins, its_words in lines_of(reading):
        words = []
        for index, word in its_words:
            if index in hesitant:
                words.append(_pause(hesitant[index]))
            words.append(_word(word))
        opening = '<p class="begins">' if begins else "<p>"
        lines.append(f"{opening}{' '.join(words)}</p>")
    return "\n".join(lines)


def _pause(hesitation: Hesitation) -> str:
    text = f"pause of {hesitation.end - hesitation.start:.1f} s"
    seen = f'<span aria-hidden="true" title="{text}">…</span>'
    return f'<span class="pause">{seen}<span class="unseen">{text}</span></span>'


def _word(word: ReadWord) -> str:
    text = escape(word.text)
    if word.start is None or word.end is None:
        return f'<s class="word {word.status}">{text}<span class="unseen">, skipped</span></s>'
    label = text if word.status is ReadStatus.RIGHT else f"{text}, {_described(word)}"
    sure = "" if word.confidence is None else f" ({word.confidence:.0%})"
    shown = text
    if word.status is ReadStatus.MISREAD and word.heard:
        shown = f"<ruby>{text}<rt>{escape(word.heard)}</rt></ruby>"
    return (
        f'<button type="button" class="word {word.status}" data-start="{word.start:.3f}" '
        f'data-end="{word.end:.3f}" aria-label="{label}" title="{label}{sure}">{shown}</button>'
    )


def _described(word: ReadWord) -> str:
    if word.status is ReadStatus.MISREAD and word.heard:
        return f"misread as {escape(word.heard)}"
    return word.status.value
