"""What is installed into the virtual environment of a checkout: the lock files, and the program that installs them."""
