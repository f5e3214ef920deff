"""The order of the passes, and the verbs as functions: plan, build, validate, train."""
