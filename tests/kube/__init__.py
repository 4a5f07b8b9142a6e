"""Tests of gm.kube."""
