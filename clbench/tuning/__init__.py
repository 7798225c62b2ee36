"""Equal tuning for every method: what is searched, how, and what came out.

    space.py      what a method declares to be searched -> trials, as values
    search.py     trials -> runs, in rungs: half of them stop early, the best are repeated
    outcome.py    the values that were found, as a file, and as values for `clbench run --tuned`
    closed.py     data sets whose test part cannot be opened

A trial is an ordinary run. It learns the first tasks of a stream and is tested on their validation
data. Trials have a store of their own, so none can stand in a table of results.
"""
