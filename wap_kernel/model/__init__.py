"""The vocabulary as data: operations, results, errors, callers, policies, runs."""
