"""What pure cores have in common: the words in which they ask something of the shell that runs them."""
