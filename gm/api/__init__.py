"""Types of ``sedna.io/v1alpha1``, their validation and their CRDs."""
