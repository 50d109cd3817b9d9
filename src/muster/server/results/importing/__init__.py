"""Taking the data of a tester over into the server's database."""
