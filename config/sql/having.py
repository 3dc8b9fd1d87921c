"""HAVING: the conditions that are valid for rows that are never retracted."""

from collections.abc import Mapping

from sqlglot import exp

from idlestate.config.sql.words import Words

_GROWS, _FALLS = {"count", "max"}, {"min"}
_MORE, _LESS = exp.GT | exp.GTE, exp.LT | exp.LTE


def check_having(tree: exp.Expression, words: Words, functions: Mapping[str, str]) -> None:
    """Refuse a condition that a key can first meet and later no longer meet.

    Emitted rows are not retracted. So a condition on aggregates must stay true once it is true: a
    count or a max above a constant, or a min below a constant.

    Args:
        tree: the condition over the result.
        words: the words of the condition.
        functions: the functions of the aggregates by column name, in lower case.

    Raises:
        QueryError: it may become false again.
    """
    if not _stays_true(tree, functions):
        what = "this condition can become false again, but emitted rows cannot be retracted"
        fix = (
            "use COUNT or MAX above a constant, or MIN below a constant, or filter the result by "
            "its expire rows, which hold the final aggregates"
        )
        raise words.refused(what, fix)


def without_aliases(words: Words, texts: Mapping[str, str], qualifiers: frozenset[str]) -> Words:
    """A condition with names of selected columns replaced by their expressions.

    Args:
        words: the condition.
        texts: names in lower case, and the expressions over the result that they stand for.
        qualifiers: the names of tables. Before a dot, they are not names of columns.
    """
    folded = ("", *words.folded, "")
    found = []
    for at, name in enumerate(folded[1:-1]):
        before, behind = folded[at], folded[at + 2]
        is_column = before != "." and behind != "(" and not (behind == "." and name in qualifiers)
        if is_column and name in texts:
            found.append((at, at + 1, texts[name]))
    return words.replaced(found)


def _stays_true(tree: exp.Expression, functions: Mapping[str, str]) -> bool:
    if isinstance(tree, exp.Paren):
        return _stays_true(tree.this, functions)
    if isinstance(tree, exp.And | exp.Or):
        return _stays_true(tree.left, functions) and _stays_true(tree.right, functions)
    aggregates = [each for each in tree.find_all(exp.Column) if each.name.lower() in functions]
    if not aggregates:
        return True  # keys stay as they are
    if not isinstance(tree, _MORE | _LESS) or len(aggregates) > 1:
        return False
    is_left = tree.left.unnest() is aggregates[0]
    if not is_left and tree.right.unnest() is not aggregates[0]:
        return False
    grows = isinstance(tree, _MORE) == is_left
    return functions[aggregates[0].name.lower()] in (_GROWS if grows else _FALLS)
