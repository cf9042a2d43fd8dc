"""Functions of linear algebra that are gone: each says what took its place."""

_INSTEAD = {
    "eig": "Use linalg.eig(A), or linalg.eigvals(A) for the eigenvalues alone: both are complex.",
    "lstsq": "Use linalg.lstsq(A, B): matrix first; its `solution` has no rows of residuals.",
    "matrix_rank": "Use linalg.matrix_rank(A, hermitian=...), whose `symmetric` is called `hermitian`.",
    "solve": "Use linalg.solve(A, B): matrix first. The factorization is linalg.lu_factor(A).",
    "symeig": "Use linalg.eigh(A), or linalg.eigvalsh(A) for the eigenvalues alone; UPLO='U' reads the upper triangle, "
    "as symeig did.",
}


def removed(name):
    """A function that says what to use instead of `name`."""

    def function(*args, **kwargs):
        raise RuntimeError(
            f"{name}(): This function was deprecated since version 1.9 and is now removed. {_INSTEAD[name]}"
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Removed. {_INSTEAD[name]}"
    return function


eig, lstsq, matrix_rank, solve, symeig = map(removed, _INSTEAD)
