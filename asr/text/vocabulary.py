"""Vocabularies: the output symbols of a model and their ids.

Every vocabulary begins with the same three symbols: ``<blank>`` (CTC blank and padding), ``<eos>``
(starts and ends a text) and ``<unk>``. Characters, words or subwords follow.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from pathlib import Path
from random import Random
from typing import Any, Final

from asr.errors import UserError
from asr.text.segmentation import WORD_START, choose_by_chance, merge_by_chance

BLANK: Final = 0
EOS: Final = 1
UNK: Final = 2
SPECIALS: Final = ("<blank>", "<eos>", "<unk>")
ENGLISH: Final = " 'abcdefghijklmnopqrstuvwxyz"
# Text of an unknown character: a single character, which counts as one character error.
UNKNOWN_CHARACTER: Final = "\N{REPLACEMENT CHARACTER}"
BEST_SEGMENTATIONS: Final = 64  # sampled from by a unigram model; l of Kudo 2018


@dataclass(frozen=True)
class Vocabulary:
    """Immutable map between texts and ids; made with `characters`, `words`, `subwords` or
    `from_json`.

    inventory: all symbols in the order of their ids, the three specials first.
    model: the serialised sentencepiece model if the symbols are subwords, else None.
    spaced: whether the symbols are words, separated by spaces in a text.
    """

    inventory: tuple[str, ...]
    model: bytes | None = None
    spaced: bool = False

    def __post_init__(self) -> None:
        if self.inventory[: len(SPECIALS)] != SPECIALS:
            raise UserError(
                f"vocabulary starts with {list(self.inventory[:3])}, wanted {list(SPECIALS)}"
            )
        if len(self.inventory) == len(SPECIALS):
            raise UserError("vocabulary has only the special symbols; give it some text")
        if len(set(self.inventory)) != len(self.inventory):
            raise UserError("vocabulary holds a symbol twice; each symbol must appear once")
        if self.kind == "characters" and any(len(s) != 1 for s in self.inventory[len(SPECIALS) :]):
            raise UserError("vocabulary of characters holds a symbol that is not one character")
        if self.kind == "words" and " ".join(self.inventory).split() != [*self.inventory]:
            raise UserError("vocabulary of words holds a symbol that is not one word")

    @property
    def kind(self) -> str:
        """The kind of the symbols: "characters", "words" or "subwords"."""
        if self.model is not None:
            return "subwords"
        return "words" if self.spaced else "characters"

    @classmethod
    def characters(cls, texts: Iterable[str] | None = None) -> Vocabulary:
        """Make the vocabulary of the characters in `texts`, sorted; without texts, English.

        The English inventory is space, apostrophe and a to z: 31 ids with the specials.

        Raises UserError if the texts have no characters.
        """
        if isinstance(texts, str):
            raise TypeError("texts must be several texts; for one text pass [text]")
        found = ENGLISH if texts is None else sorted({c for text in texts for c in text})
        return cls(SPECIALS + tuple(found))

    @classmethod
    def words(cls, texts: Iterable[str], least: int = 2) -> Vocabulary:
        """Make the vocabulary of tokens that occur at least `least` times, sorted.

        Tokens are separated by spaces. Raises UserError if there are none.
        """
        if isinstance(texts, str):
            raise TypeError("texts must be several texts; for one text pass [text]")
        counts = Counter(word for text in texts for word in text.split())
        found = sorted(word for word in counts if counts[word] >= least and word not in SPECIALS)
        return cls(SPECIALS + tuple(found), spaced=True)

    @classmethod
    def subwords(cls, model: str | Path | bytes) -> Vocabulary:
        """Make the vocabulary of a sentencepiece model, a file or its serialised bytes.

        The special symbols replace control and unknown pieces of the model. With sentencepiece's
        default training (<unk>, <s>, </s> first) the ids equal those of the model.

        Raises UserError if the file does not exist or is not a sentencepiece model.
        """
        proto = model if isinstance(model, bytes) else _read(Path(model))
        processor = _load_sentencepiece(proto)
        pieces = [processor.id_to_piece(i) for i in _ordinary_pieces(processor)]
        return cls(SPECIALS + tuple(pieces), proto)

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text` without <eos>; unknown symbols become UNK."""
        if self.model is None:
            return [*map(self._ids.get, text.split() if self.spaced else text, repeat(UNK))]
        return [self._from_piece.get(piece, UNK) for piece in self._sentencepiece.encode(text)]

    def sample(self, text: str, dropout: float, seed: int) -> list[int]:
        """Return the ids of a random segmentation of `text` that depends only on the seed.

        dropout: for byte pairs, the share of merges to skip; for a unigram model, the exponent (α)
            of the probabilities of the 64 best segmentations; 0 gives the result of `encode`.

        Raises ValueError if the symbols are not subwords.
        """
        if self.model is None:
            raise ValueError(f"a vocabulary of {self.kind} has only one segmentation")
        if not dropout:
            return self.encode(text)
        random = Random(seed)
        processor = self._sentencepiece
        if self._merges is None:
            best = processor.nbest_encode(text, nbest_size=BEST_SEGMENTATIONS)
            chosen = choose_by_chance(best, processor.get_score, dropout, random)
            return [self._from_piece.get(piece, UNK) for piece in chosen]
        words = re.findall(f"{WORD_START}?[^{WORD_START}]*", processor.normalize(text))
        pieces = [p for w in words for p in merge_by_chance(w, self._merges, dropout, random)]
        ids = [self._from_piece.get(processor.piece_to_id(piece), UNK) for piece in pieces]
        return [i for at, i in enumerate(ids) if i != UNK or ids[at - 1 : at] != [UNK]]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`; BLANK and EOS are dropped.

        UNK becomes U+FFFD for characters, <unk> for words, and sentencepiece's own symbol for
        subwords.

        Raises IndexError if an id is not in the vocabulary.
        """
        kept = [i for i in self._checked(ids) if i not in (BLANK, EOS)]
        if self.spaced:
            return " ".join(self.inventory[i] for i in kept)
        if self.model is None:
            return "".join(UNKNOWN_CHARACTER if i == UNK else self.inventory[i] for i in kept)
        unknown = self._sentencepiece.unk_id()
        pieces = [unknown if i == UNK else self._pieces[i - len(SPECIALS)] for i in kept]
        return str(self._sentencepiece.decode(pieces))

    def symbols(self, ids: Iterable[int]) -> list[str]:
        """Return the symbol of each id, specials included, for pictures and times.

        Raises IndexError if an id is not in the vocabulary.
        """
        return [self.inventory[i] for i in self._checked(ids)]

    def __len__(self) -> int:
        return len(self.inventory)

    def to_json(self) -> str:
        """Return the vocabulary as JSON; a subword model is included as base64."""
        content: dict[str, Any]
        if self.model is None:
            content = {"kind": self.kind, "symbols": list(self.inventory)}
        else:
            encoded = base64.b64encode(self.model).decode("ascii")
            content = {"kind": "subwords", "sentencepiece": encoded}
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Vocabulary:
        """Restore a vocabulary from the result of `to_json`.

        Raises UserError if `text` is not a vocabulary.
        """
        try:
            content = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise UserError(
                f"vocabulary is not JSON ({error}); wanted what to_json wrote"
            ) from None
        match content:
            case {"kind": "characters" | "words" as kind, "symbols": list(symbols)}:
                if not all(isinstance(symbol, str) for symbol in symbols):
                    raise UserError("vocabulary: 'symbols' must hold strings only")
                return cls(tuple(symbols), spaced=kind == "words")
            case {"kind": "subwords", "sentencepiece": str(encoded)}:
                try:
                    proto = base64.b64decode(encoded, validate=True)
                except (binascii.Error, ValueError):
                    raise UserError("vocabulary: 'sentencepiece' is not valid base64") from None
                return cls.subwords(proto)
        raise UserError(
            "vocabulary: wanted an object with kind 'characters' or 'words' and 'symbols', "
            "or kind 'subwords' and 'sentencepiece'"
        )

    @cached_property
    def _ids(self) -> dict[str, int]:
        first = len(SPECIALS)  # the text "<eos>" must not be encoded as EOS
        return {symbol: first + i for i, symbol in enumerate(self.inventory[first:])}

    @cached_property
    def _sentencepiece(self) -> Any:  # sentencepiece carries no types
        assert self.model is not None
        return _load_sentencepiece(self.model)

    @cached_property
    def _pieces(self) -> list[int]:
        return _ordinary_pieces(self._sentencepiece)

    @cached_property
    def _from_piece(self) -> dict[int, int]:
        return {piece: len(SPECIALS) + i for i, piece in enumerate(self._pieces)}

    @cached_property
    def _merges(self) -> dict[str, float] | None:
        """Score of each merged piece; None for a unigram model, which has no merges."""
        processor = self._sentencepiece
        try:
            processor.nbest_encode("", nbest_size=1)
        except RuntimeError:  # not supported for byte pairs
            names = ((processor.id_to_piece(i), processor.get_score(i)) for i in self._pieces)
            return {name: score for name, score in names if len(name) > 1}
        return None

    def _checked(self, ids: Iterable[int]) -> list[int]:
        checked = [int(i) for i in ids]
        for i in checked:
            if not 0 <= i < len(self.inventory):
                raise IndexError(f"id {i} is not in a vocabulary of {len(self.inventory)}")
        return checked


def of_both_sides(path: Path, contents: Mapping[str, str]) -> tuple[Vocabulary, Vocabulary]:
    """Make the source and target vocabularies of a translation model.

    path: its folder. contents: file stem → JSON, as returned by `asr.models.folder.read_folder`.
    Raises UserError if one is missing or invalid.
    """
    if missing := {"source", "target"} - set(contents):
        raise UserError(f"{path}: a translation model without {min(missing)}.json")
    return Vocabulary.from_json(contents["source"]), Vocabulary.from_json(contents["target"])


def _ordinary_pieces(processor: Any) -> list[int]:
    """Return the ids, in the sentencepiece model, of the pieces of text."""
    return [
        i
        for i in range(processor.get_piece_size())
        if not (processor.is_control(i) or processor.is_unknown(i))
    ]


def _load_sentencepiece(proto: bytes) -> Any:
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise UserError(
            "subword vocabularies need sentencepiece; install it: pip install sentencepiece"
        ) from None
    try:
        if not proto:  # sentencepiece accepts empty bytes and fails later
            raise ValueError
        return SentencePieceProcessor(model_proto=proto)
    except (RuntimeError, ValueError):
        raise UserError(f"got {len(proto)} bytes that are not a sentencepiece model") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the sentencepiece model {path}: {error.strerror}") from None
