"""What the code inside can call: how, and in which form its stub is made there."""

from __future__ import annotations

LOOKS = frozenset({"peek", "grep", "list_dir", "file_info", "chunk_context"})
"""What counts as having looked before answering."""
READ_ONLY = frozenset({"peek", "grep", "list_dir", "file_info", "context_len"})

DOCS = {
    "peek": "peek(n=500) or peek(source, n=500, start=0, lines=None) -> str\n\nA piece of the context, of a stored "
    "output ('out:3') or of a file under a root. lines=(first, last) gives whole lines, from 1.",
    "grep": "grep(pattern, source=None, before=0, after=0, ignore_case=True, max_results=100) -> hits\n\nLines that "
    "match a regular expression (RE2: no lookaround, no backreference). Each hit is the line as text with .line, "
    ".column and .start; print(hits) shows them with their numbers; hits.total counts all.",
    "FINAL": "FINAL(answer)\n\nGive the final answer and end. Nothing after it runs.",
    "FINAL_VAR": "FINAL_VAR(name)\n\nGive the value of a variable, or of artifacts[name], as the final answer and end.",
    "STUCK": "STUCK(reason) -> str\n\nSay what holds you up; gives advice. Does not end the turn.",
    "context_len": "context_len() -> int\n\nCharacters of the context.",
    "chunk_context": "chunk_context(n_chunks=4, overlap=200) -> list of dicts\n\nThe context in pieces: index, start, "
    "end, text, char_count. Nothing is left out.",
    "list_dir": "list_dir(path='.') -> entries\n\nWhat is in a folder of the workspace or under a root; each entry is "
    "its name as text with .is_dir, .size and .path.",
    "file_info": "file_info(path) -> dict\n\nType, size and time of a file under a root.",
    "mark_finding": "mark_finding(content, tags=(), source=None) -> dict\n\nNote something down for later turns.",
    "list_findings": "list_findings() -> list of dicts\n\nWhat was noted down.",
    "llm_call": "llm_call(prompt, context_slice=None) -> str\n\nAsk a language model; it sees only what you give it.",
    "llm_batch": "llm_batch(prompts) -> list of str\n\nAsk many prompts side by side; answers in order.",
    "list_tools": "list_tools()\n\nEverything that can be called here.",
    "help": "help(name)\n\nHow something is called.",
}
STUBS = {
    "grep": "hits", "FINAL": "final", "FINAL_VAR": "final_var", "chunk_context": "chunks", "list_dir": "listing",
    "help": "help", "list_tools": "list_tools", "llm_call": "texts", "mark_finding": "texts", "STUCK": "texts",
}  # fmt: skip


def usage(name: str) -> str:
    """How one of ours is called, in one line."""
    return DOCS[name].partition("\n")[0]
