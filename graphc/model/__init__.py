"""Model files and the initial values of parameters; needs numpy and the support package."""
