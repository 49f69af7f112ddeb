"""Fitting of click models to statistics of a log: closed forms, EM, intervals, evaluation."""
