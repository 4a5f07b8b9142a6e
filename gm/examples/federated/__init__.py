"""Federated learning of handwritten digits: an aggregation worker and training workers.

``aggregate`` and ``train`` follow the environment that GM gives to workers and know nothing else
of it; ``prepare`` writes the data. See ``examples/federated-learning/README.md``.
"""

from __future__ import annotations

import os

# The matrices are tiny: threads of the linear algebra libraries would only fight over the cores
# with the other workers. They read this when they are loaded, so it has to come before numpy.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
