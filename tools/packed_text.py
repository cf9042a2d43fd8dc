"""Generated headers for the wheel: their texts repeat themselves, and what they repeat stands in them as macros.

Bytes of C++ without comments go in, bytes with the same tokens come out. Pairs of neighbouring tokens that occur often
become one macro each, pairs of such macros again, as byte pair encoding does it.
"""

import collections
import heapq
import re

# Neighbours that would be read as one token without a blank between them.
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|\d[\w.]*|::|->|&&|[^\s\w]')
_NAME_STARTS = "ZQ"  # no macro of a user's is likely to begin so and to be as short
_REST = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
_DEFINITION = len("#define  \n#undef \n")
_END = -1  # of a line: nothing is joined across it
# Lines of the preprocessor, and calls of macros, whose arguments may become parts of names.
_KEPT = re.compile(r"#|[A-Z]\w+\(")


def _blank(left, right):
    """Whether a blank must stay between two tokens."""
    a, b = left[-1], right[0]
    if a.isalnum() or a == "_":
        return b.isalnum() or b in "_\"'"
    if a in "\"'":  # a name behind a literal would be its suffix
        return b.isalnum() or b == "_"
    return a in "&*<>=-+|:" and b in "&*<>=-+|:"


def _text(tokens):
    parts = list(tokens[:1])
    for left, right in zip(tokens, tokens[1:]):
        parts.append(" " + right if _blank(left, right) else right)
    return "".join(parts)


def tokens_of(text):
    """The tokens of C++ without comments, lines of the preprocessor and calls of macros in one piece."""
    return [piece for line in text.split("\n") for piece in ([line] if _KEPT.match(line) else _TOKEN.findall(line))]


class _Pairs:
    """A sequence of symbols whose neighbours are joined to new symbols."""

    def __init__(self, symbols):
        self.at = list(symbols)
        n = len(self.at)
        self.next, self.previous = list(range(1, n + 1)), list(range(-1, n - 1))
        self.places = collections.defaultdict(set)
        for i in range(n - 1):
            self._enter(i)

    def pair(self, i):
        j = self.next[i]
        if j >= len(self.at) or self.at[i] < 0 or self.at[j] < 0:
            return None
        return self.at[i], self.at[j]

    def _enter(self, i):
        if i >= 0 and (p := self.pair(i)):
            self.places[p].add(i)

    def _leave(self, i):
        if i >= 0 and (p := self.pair(i)):
            self.places[p].discard(i)

    def join(self, pair, symbol):
        """Puts the symbol in the places of a pair; the pairs that are new."""
        changed = set()
        for i in sorted(self.places.pop(pair)):
            j = self.next[i]
            if self.at[i] is None or j >= len(self.at) or (self.at[i], self.at[j]) != pair:
                continue
            before, after = self.previous[i], self.next[j]
            self._leave(before)
            self._leave(j)
            self.at[i], self.at[j] = symbol, None
            self.next[i] = after
            if after < len(self.at):
                self.previous[after] = i
            for k in (before, i):
                self._enter(k)
                if k >= 0 and (p := self.pair(k)):
                    changed.add(p)
        return changed

    def symbols(self):
        return [s for s in self.at if s is not None]


def _joined(lines):
    """(lines of symbols, text or pair of symbols of each): pairs are joined while that makes the text shorter."""
    number, meaning, symbols = {}, [], []
    for line in lines:
        for token in line:
            if token not in number:
                number[token] = len(meaning)
                meaning.append(token)
            symbols.append(number[token])
        symbols.append(_END)
    pairs = _Pairs(symbols)

    def size(s):
        return len(meaning[s]) if isinstance(meaning[s], str) else 2.5

    def gain(p):
        a, b = p
        whole = size(a) + size(b) + 0.5
        return len(pairs.places.get(p, ())) * (whole - 3) - whole - _DEFINITION - 5

    heap = [(-gain(p), p) for p in pairs.places]
    heapq.heapify(heap)
    while heap:
        worth, p = heapq.heappop(heap)
        now = gain(p)
        if now <= 0:
            continue
        if now < -worth - 0.1:  # fewer than when it was looked at
            heapq.heappush(heap, (-now, p))
            continue
        meaning.append(p)
        for q in pairs.join(p, len(meaning) - 1):
            if (worth := gain(q)) > 0:
                heapq.heappush(heap, (-worth, q))
    result, line = [], []
    for s in pairs.symbols():
        if s == _END:
            result.append(line)
            line = []
        else:
            line.append(s)
    return result, meaning


def packed(text):
    """`text` (bytes) with macros, which are gone behind it. Lines of the preprocessor and calls of macros stay as they
    are, and first if they were.
    """
    lines = text.decode().split("\n")
    directive = [_KEPT.match(line) is not None for line in lines]
    taken = set(re.findall(r"\b\w{1,3}\b", text.decode()))
    symbols, meaning = _joined([[] if raw else _TOKEN.findall(line) for line, raw in zip(lines, directive)])
    uses = collections.Counter(s for line in symbols for s in line)
    pairs = [s for s, m in enumerate(meaning) if not isinstance(m, str)]
    for s in pairs:
        uses.update(meaning[s])
    words = [
        s
        for s, m in enumerate(meaning)
        if isinstance(m, str) and re.match(r"[A-Za-z_]\w{3}", m) and uses[s] * (len(m) - 3) > len(m) + _DEFINITION + 6
    ]
    names = (
        name
        for rest in ([a for a in _REST], [a + b for a in _REST for b in _REST])
        for name in (start + r for start in _NAME_STARTS for r in rest)
        if name not in taken
    )
    by_use = sorted({s for s in [*pairs, *words] if uses[s]}, key=lambda s: (-uses[s], s))
    name = dict(zip(by_use, names))

    def spelled(s):
        return name.get(s) or (meaning[s] if isinstance(meaning[s], str) else _text([spelled(t) for t in meaning[s]]))

    def definition(s):
        m = meaning[s]
        return m if isinstance(m, str) else _text([spelled(t) for t in m])

    begin = "".join("#define %s %s\n" % (name[s], definition(s)) for s in by_use)
    end = "".join("#undef %s\n" % name[s] for s in by_use)
    first = next((i for i, raw in enumerate(directive) if not raw and lines[i]), len(lines))
    body = [line if raw else _text([spelled(s) for s in of]) for line, raw, of in zip(lines, directive, symbols)]
    head = "".join(line + "\n" for line in body[:first])
    return (head + begin + "\n".join(body[first:]).rstrip("\n") + "\n" + end).encode()


def unpacked_tokens(text):
    """tokens_of() of a packed text, its macros replaced: what was packed has the same."""
    meaning = dict(re.findall(r"^#define (\w+) (.*)$", text, re.M))
    result, left = [], [t for t in reversed(tokens_of(text)) if not re.match(r"#(define|undef) ", t)]
    while left:
        token = left.pop()
        if token in meaning:
            left.extend(reversed(_TOKEN.findall(meaning[token])))
        else:
            result.append(token)
    return result
